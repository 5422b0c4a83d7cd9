//! libFuzzer over one target, which `FUZZ_TARGET` names. `fuzz/run` builds and calls it.
#![no_main]
#![allow(clippy::panic)] // That is how libFuzzer learns of a fault.

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use mpbond_fuzz::Target;

fuzz_target!(|octets: &[u8]| {
    static TARGET: OnceLock<&'static Target> = OnceLock::new();
    let target = TARGET.get_or_init(|| {
        let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
        Target::named(&name).unwrap_or_else(|| panic!("FUZZ_TARGET={name} is no target"))
    });
    target.check(octets);
});
