# What a person does with mpbond's source:
#   make daemons         builds mpbond: all that a device or a server needs
#   make release         builds mpbond, mpbond-console, mpbond-bluetooth and mpbond-lab, whole
#   make demo            three devices download together, in namespaces on this machine
#   make demo-failover   the same while a helper dies and a link goes silent
#   make test            all that has to pass before a change is taken
#   make bluetooth       the daemons over real Bluetooth sockets, in a user-mode kernel that it builds once
#   make console-test    the page of mpbond console in Chromium, which it installs
#   make hunt            property tests with fresh random cases, many of them (CASES=2000)
#   make simulate        random worlds with faults, on all cores: WORLDS=100000 FIRST=1
#   make day             a day of a laptop and its helpers: DAYS=1000 SEED=1 HELPERS=0 JSON=FILE
#   make upgrades        twenty upgrades of each daemon while a download runs
#   make quickstart-test docs/quickstart.md, followed word by word on three machines in namespaces, at
#                        the pace of a person; as root
#   make fuzz            hostile input for every parser, TIME=60s each (TARGET="socks5 http")
#   make advisories      known holes in dependencies, with cargo-deny and a network
#   make survey          links drawn at random, in virtual time, beside wanted figures: SEED="1 2" for
#                        other seeds, PAIRS=tuning for recorded links (QUICK=1: a glance)
#   make ablation        what each mechanism of the sender gains, in virtual time: SEED="1 2"
#                        (QUICK=1: a glance)
#   make peers           mpbond beside other programs that use several paths, which it installs from
#                        crates.io (QUICK=1: one repetition over one pair of links)
#   make bench           figures beside their targets (QUICK=1: just to see it run)
#   make footprint       sizes of the programs and CPU seconds of their builds, beside their bounds
#   make load            thousands of sessions and streams at one proxy (QUICK=1: a tenth)
#   make soak            all daemons under mixed traffic for TIME=30m: nothing may grow (QUICK=1: 5m)
#   make experiments     every experiment, and a report of them (QUICK=1: a glance, 15 minutes);
#                        stopped, it goes on where it was when it is called again
#   make install         programs, manual pages, completions, systemd units and their user, as root
#                        (PREFIX=/usr/local, DESTDIR= for packages)
#   make uninstall       removes them; keys and configurations stay
#   make dist            static programs and Debian packages for x86-64, arm64 and armv7 in out/dist
#                        (PROCESSORS="x86_64 aarch64")
#   make dist-check      checks what make dist has made: programs, packages and checksums
#   make clean
# JSON=FILE keeps the record of a demo, of load or of soak.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help daemons demo demo-failover demo-programs experiments release test fmt clippy unit unit-programs hunt simulate day survey ablation peers fuzz deny bench footprint \
	load soak upgrades quickstart-test bluetooth console-test advisories prepare install uninstall dist dist-check clean

# Where rustup puts cargo, and where Debian puts ip and nft.
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH):/usr/sbin:/sbin

BUILT := $(or $(CARGO_TARGET_DIR),target)/release
MPBOND := $(BUILT)/mpbond
# Programs as they are installed, their debug information apart.
DIST := $(BUILT)/dist
# There when mpbond-lab was last built with everything in it.
WHOLE := $(BUILT)/mpbond-lab.whole
RECORD := $(if $(JSON),--json '$(JSON)')

help:
	@sed -n 's/^#   /  /p' Makefile

prepare:
	@.ci/prepare

daemons: prepare
	cargo build --release --locked -p mpbond
	@.ci/strip '$(DIST)' '$(MPBOND)'

release: prepare
	cargo build --release --locked -p mpbond -p mpbond-console -p mpbond-bluetooth -p mpbond-lab-cli
	@touch '$(WHOLE)'
	@.ci/strip '$(DIST)' '$(MPBOND)' '$(BUILT)/mpbond-console' \
		'$(BUILT)/mpbond-bluetooth' '$(BUILT)/mpbond-lab'

# The demonstration does without the analysers, unless they have been built.
demo-programs: prepare
	cargo build --release --locked -p mpbond -p mpbond-lab-cli \
		$(if $(wildcard $(WHOLE)),,--no-default-features)

# Exit code 4: every byte was right, but the machine was too busy for the links to keep their time.
demonstrate = code=0; '$(MPBOND)' lab run '$(1)' $(RECORD) || code=$$?; \
	if [ $$code != 4 ]; then exit $$code; fi; \
	echo "warning: this machine was too busy for exact times; all files arrived intact" >&2

demo: demo-programs
	@$(call demonstrate,experiments/demo.toml)

demo-failover: demo-programs
	@$(call demonstrate,experiments/demo-failover.toml)

test: prepare fmt clippy unit deny
	@echo "all tests passed"

fmt:
	cargo fmt --all -- --check

clippy:
	cargo clippy --workspace --all-targets --locked -- -D warnings

unit-programs:
	cargo test --workspace --locked --no-run

# Tests with daemons wait most of the time, hence two at a time for each processor.
unit:
	RUST_TEST_THREADS=$${RUST_TEST_THREADS:-$$(($$(nproc) * 2))} \
		cargo test --workspace --locked --no-fail-fast

hunt: prepare
	PROPTEST_RNG_SEED=$$RANDOM$$RANDOM PROPTEST_CASES=$(or $(CASES),2000) \
		cargo test --workspace --locked --no-fail-fast

upgrades: prepare
	cargo test -p mpbond --test failure -- --ignored upgrade --nocapture

quickstart-test: prepare
	MPBOND_TEST_PACE=person MPBOND_TEST_REQUIRE=namespaces,root,curl,dpkg,systemd,idle \
		cargo test -p mpbond --test it quickstart -- --nocapture

# BlueZ's virtual controllers, in a kernel of its own: most machines have no Bluetooth to test with.
bluetooth: prepare
	@.ci/bluetooth/prepare
	cargo build --release --locked -p mpbond -p mpbond-bluetooth
	@PROGRAMS='$(BUILT)' .ci/bluetooth/run

console-test: prepare
	@.ci/prepare-chromium
	MPBOND_TEST_REQUIRE=chromium cargo test --locked -p mpbond-console

simulate: prepare
	@cargo run --quiet --release --locked -p mpbond-sim --example worlds -- \
		$(or $(WORLDS),100000) $(or $(FIRST),1)

day: prepare
	@cargo run --quiet --release --locked -p mpbond-sim --example day -- --days $(or $(DAYS),1) \
		--seed $(or $(SEED),1) $(if $(HELPERS),--helpers $(HELPERS)) $(if $(JSON),--json '$(JSON)')

# Seeds of the reported settings (ADR 0022); a glance is at a seed for tuning.
SURVEY_SEEDS := 146 147
survey: release
	@mkdir -p out
	@'$(MPBOND)' lab survey --json out/survey.json --html out/survey.html $(if $(PAIRS), \
		--trace-pairs '$(PAIRS)', \
		--settings $(if $(QUICK),4,60) \
		$(addprefix --seed ,$(or $(SEED),$(if $(QUICK),1,$(SURVEY_SEEDS))))) \
		$(if $(QUICK),--seeds 4)
	@echo "the record is out/survey.json, the page out/survey.html"

# Seeds for tuning only: reported settings are not looked at.
ablation: release
	@mkdir -p out
	@'$(MPBOND)' lab ablation --json out/ablation.json --html out/ablation.html \
		$(addprefix --seed ,$(SEED)) $(if $(QUICK),--settings 2 --repeat 0 --worlds 20)
	@echo "the record is out/ablation.json, the page out/ablation.html"

fuzz: prepare
	@TIME='$(or $(TIME),60s)' TARGET='$(TARGET)' fuzz/run

# Licences need a further tool (`cargo install cargo-deny --locked`).
deny:
	@if cargo deny --version >/dev/null 2>&1; then \
		cargo deny --locked check bans licenses sources; \
	else \
		echo "cargo-deny is not installed: licences and duplicate crates are not checked"; \
	fi

# Sizes of the programs, and CPU seconds of building them from nothing, with their bounds.
footprint: prepare
	@.ci/footprint

peers: release
	@.ci/peers

bench: release
	@.ci/bench

load: release
	cargo build --release --locked -p mpbond-lab-cli --example load
	@'$(BUILT)/examples/load' bench --mpbond '$(MPBOND)' $(if $(QUICK),--quick) $(RECORD)

soak: release
	cargo build --release --locked -p mpbond-lab-cli --example load
	@'$(BUILT)/examples/load' soak --mpbond '$(MPBOND)' --time '$(or $(TIME),$(if $(QUICK),5m,30m))' $(RECORD)
# Known holes in what we depend on; the list of them comes from the network.
advisories:
	cargo deny --locked check advisories

experiments: release
	@.ci/prepare-java
	@experiments/run

# Root installs what somebody else has built: it needs no compiler.
PREFIX ?= /usr/local
install:
	@test -x '$(DIST)/mpbond' || { \
		echo "first, as an ordinary user: make daemons, or make release" >&2; exit 1; }
	@DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' dist/install '$(DIST)'

uninstall:
	@DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' dist/uninstall

dist: prepare
	@.ci/dist $(PROCESSORS)

dist-check:
	@.ci/dist-check

clean:
	cargo clean
	rm -rf out
