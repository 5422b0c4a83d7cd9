//! libFuzzer for the target named by `FUZZ_TARGET`. Built and called by `fuzz/run`.
#![no_main]
#![allow(clippy::panic)] // libFuzzer detects faults by panics.

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use mpbond_fuzz::Target;

fuzz_target!(|octets: &[u8]| {
    static TARGET: OnceLock<&'static Target> = OnceLock::new();
    let target = TARGET.get_or_init(|| {
        let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
        Target::named(&name).unwrap_or_else(|| panic!("FUZZ_TARGET={name} is not a target"))
    });
    target.check(octets);
});
