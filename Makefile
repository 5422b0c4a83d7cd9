# What a person does with mpbond's source:
#   make demo            three devices download together, in namespaces on this machine
#   make demo-failover   the same while a helper dies and a link goes silent
#   make test            all that has to pass before a change is taken
#   make hunt            property tests with fresh random cases, many of them (CASES=2000)
#   make fuzz            hostile input for every parser, TIME=60s each (TARGET="socks5 http")
#   make bench           figures beside their targets (QUICK=1: just to see it run)
#   make experiments     every experiment, and a report of them (QUICK=1: a glance, 15 minutes);
#                        stopped, it goes on where it was when it is called again
#   make clean
# JSON=FILE keeps the record of a demo.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo demo-failover experiments release test fmt clippy unit hunt fuzz deny bench \
	prepare clean

# Where rustup puts cargo, and where Debian puts ip and nft.
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH):/usr/sbin:/sbin

MPBOND := $(or $(CARGO_TARGET_DIR),target)/release/mpbond
RECORD := $(if $(JSON),--json '$(JSON)')

help:
	@sed -n 's/^#   make/  make/p' Makefile

prepare:
	@.ci/prepare

release: prepare
	cargo build --release --locked -p mpbond

demo: release
	@'$(MPBOND)' lab run experiments/demo.toml $(RECORD)

demo-failover: release
	@'$(MPBOND)' lab run experiments/demo-failover.toml $(RECORD)

test: prepare fmt clippy unit deny
	@echo "all tests passed"

fmt:
	cargo fmt --all -- --check

clippy:
	cargo clippy --workspace --all-targets --locked -- -D warnings

unit:
	cargo test --workspace --locked --no-fail-fast

hunt: prepare
	PROPTEST_RNG_SEED=$$RANDOM$$RANDOM PROPTEST_CASES=$(or $(CASES),2000) \
		cargo test --workspace --locked --no-fail-fast

fuzz: prepare
	@TIME='$(or $(TIME),60s)' TARGET='$(TARGET)' fuzz/run

# Licences and advisories need a further tool and, for advisories, a network.
deny:
	@if cargo deny --version >/dev/null 2>&1; then \
		cargo deny --locked check bans licenses sources; \
	else \
		echo "cargo-deny is not installed: licences and duplicate crates are not checked"; \
	fi

bench: release
	@.ci/bench

experiments: release
	@.ci/prepare-java
	@experiments/run

clean:
	cargo clean
	rm -rf out
