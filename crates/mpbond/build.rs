//! Link options of the program `mpbond`.

use std::env::var;
use std::process::Command;

/// The first version of the GNU C library that applies packed relative relocations.
const PACKED_SINCE: (u32, u32) = (2, 36);

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is_native = var("TARGET") == var("HOST");
    let is_gnu = var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "gnu");
    // 24 octets for each pointer in constants, of which tables of functions are full, become one or
    // two: 0.25 MB of the program.
    if is_native && is_gnu && libc_version().is_some_and(|version| version >= PACKED_SINCE) {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Version of this machine's GNU C library.
fn libc_version() -> Option<(u32, u32)> {
    let told = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let text = String::from_utf8(told.ok()?.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    let minor: String = minor.chars().take_while(char::is_ascii_digit).collect();
    Some((major.parse().ok()?, minor.parse().ok()?))
}
