//! Fuzz targets for every parser of untrusted input in mpbond.
//!
//! A [`Target`] is a function of octets that panics when its input reveals a fault. `fuzz/run`
//! searches for such inputs with libFuzzer; the tests of this package run every input of the
//! committed corpora, and mutations of them, without libFuzzer.

#![deny(unsafe_code)]
#![allow(clippy::panic)] // A target reports a fault by panicking.

mod choices;
pub mod memory;
mod mutate;
pub mod seeds;
mod sessions;
mod targets;

pub use choices::Choices;
pub use mutate::Mutations;

use sessions::{hostile, pair};
use targets::{
    answers, bluetooth_host, captures, client_hello, config, fronts, l2, links, look_up, policy,
    traces, uevents, wire,
};

/// A fuzz target.
#[derive(Clone, Copy)]
pub struct Target {
    /// Name of the target and of its corpus directory.
    pub name: &'static str,
    /// The function; panics when the octets reveal a fault.
    pub run: fn(&[u8]),
    /// Maximum useful length of an input in octets.
    pub most_octets: usize,
    /// Constant part of its memory limit in bytes.
    pub base_bytes: usize,
    /// Part of its memory limit per octet of input, in bytes.
    pub bytes_an_octet: usize,
}

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

const fn target(name: &'static str, run: fn(&[u8]), most_octets: usize) -> Target {
    Target {
        name,
        run,
        most_octets,
        base_bytes: MIB,
        bytes_an_octet: 256,
    }
}

/// A target that decompresses: up to a thousandfold expansion, plus decompression windows.
const fn unpacking(name: &'static str, run: fn(&[u8]), most_octets: usize) -> Target {
    Target {
        base_bytes: 32 * MIB,
        bytes_an_octet: 16 * KIB,
        ..target(name, run, most_octets)
    }
}

/// A target whose memory is limited by a bound of its own.
const fn own_bound(name: &'static str, run: fn(&[u8]), most_octets: usize) -> Target {
    Target {
        base_bytes: 64 * MIB,
        bytes_an_octet: 0,
        ..target(name, run, most_octets)
    }
}

/// All targets.
pub const TARGETS: &[Target] = &[
    target("frames", wire::frames, 4 * KIB),
    own_bound("hello", wire::hello, 4 * KIB),
    target("control", wire::control, 4 * KIB),
    target("opening", wire::opening, 64),
    target("pairing", wire::pairing, 256),
    target("l2-frame", l2::l2_frame, 2 * KIB),
    own_bound("traffic", wire::traffic, 4 * KIB),
    target("tls-accept", wire::tls_accept, 4 * KIB),
    target("tls-connect", wire::tls_connect, 4 * KIB),
    target("client-hello", client_hello::client_hello, 2 * KIB),
    own_bound("session-pair", pair::pair, 2 * KIB),
    own_bound("hostile-primary", hostile::hostile_primary, 4 * KIB),
    own_bound("hostile-proxy", hostile::hostile_proxy, 4 * KIB),
    target("socks5", fronts::socks5, KIB),
    target("http", fronts::http, 4 * KIB),
    target("dns", fronts::dns, KIB),
    target("resolver", answers::resolver, 4 * KIB),
    target("look-up", look_up::look_up, 2 * KIB),
    target("discovery", answers::discovery, 2 * KIB),
    target("probe", answers::probe, KIB),
    target("uevent", uevents::uevent, KIB),
    target("bluetooth-host", bluetooth_host::bluetooth_host, KIB),
    target("config", config::config, 4 * KIB),
    target("policy", policy::policy, 4 * KIB),
    target("trust", config::trust, KIB),
    target("enrolment", config::enrolment, KIB),
    target("identity", config::identity, 2 * KIB),
    target("experiment", config::experiment, 8 * KIB),
    target("page", config::page, 4 * KIB),
    target("record", config::record, 8 * KIB),
    target("duration", config::duration, 64),
    target("trace-rules", config::trace_rules, 4 * KIB),
    target("mahimahi", links::mahimahi, KIB),
    target("rate-profile", links::rate_profile, KIB),
    target("distances", links::distances, KIB),
    target("radio-profile", links::radio_profile, 8 * KIB),
    unpacking("capture", captures::capture, 4 * KIB),
    unpacking("bluetooth", captures::bluetooth, 4 * KIB),
    unpacking("wifi-merge", captures::wifi_merge, 4 * KIB),
    unpacking("energy", captures::energy, 4 * KIB),
    unpacking("transfer", captures::transfer, 4 * KIB),
    target("logs", captures::logs, 2 * KIB),
    target("handover-phases", captures::handover_phases, 2 * KIB),
    target("proc-files", captures::proc_files, KIB),
    unpacking("trace-text", traces::trace, 8 * KIB),
    unpacking("trace-html", traces::trace, 8 * KIB),
    unpacking("trace-dat", traces::trace, 16 * KIB),
    unpacking("trace-perfetto", traces::trace, 8 * KIB),
    unpacking("trace-method", traces::trace, 4 * KIB),
    unpacking("trace-perf", traces::trace, 8 * KIB),
];

impl Target {
    /// The target with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        TARGETS.iter().find(|t| t.name == name)
    }

    /// Runs the target; panics also when it exceeds its memory limit.
    pub fn check(&self, octets: &[u8]) {
        let peak = memory::peak_bytes(|| (self.run)(octets));
        let most = self.base_bytes + self.bytes_an_octet * octets.len();
        assert!(
            peak <= most,
            "{}: held {peak} bytes for {} octets, above the limit of {most}",
            self.name,
            octets.len()
        );
    }
}
