//! Link options of the programs `mpbond` and `mpbond-lab`.

use std::env::var;
use std::process::Command;

/// The first version of the GNU C library that applies packed relative relocations.
const PACKED_SINCE: (u32, u32) = (2, 36);

/// The first minor version of rustc 1 that links with LLD.
const LLD_SINCE: u32 = 90;

fn main() {
    println!("cargo:rerun-if-changed=../mpbond/build.rs");
    let is_native = var("TARGET") == var("HOST");
    let is_gnu = var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "gnu");
    // 24 octets for each pointer in constants, of which tables of functions are full, become one or
    // two: 0.25 MB of the program.
    if is_native && is_gnu && libc_version().is_some_and(|version| version >= PACKED_SINCE) {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    // Functions of the same machine code become one: those of generic code for several types.
    let is_release = var("PROFILE").is_ok_and(|profile| profile == "release");
    if is_release && is_native && links_with_lld() {
        println!("cargo:rustc-link-arg-bins=-Wl,--icf=all");
    }
}

/// Whether programs are linked with LLD, as rustc does since 1.90 for this target unless it is told
/// otherwise.
fn links_with_lld() -> bool {
    let is_target = var("TARGET").is_ok_and(|target| target == "x86_64-unknown-linux-gnu");
    let flags = var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let is_default = var("RUSTC_LINKER").is_err() && !flags.contains("link");
    is_target && is_default && rustc_minor().is_some_and(|minor| minor >= LLD_SINCE)
}

/// Minor version of the compiler, 1.x.
fn rustc_minor() -> Option<u32> {
    let told = Command::new(var("RUSTC").ok()?).arg("--version").output();
    let text = String::from_utf8(told.ok()?.stdout).ok()?;
    let version = text.strip_prefix("rustc 1.")?;
    version.split('.').next()?.parse().ok()
}

/// Version of this machine's GNU C library.
fn libc_version() -> Option<(u32, u32)> {
    let told = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let text = String::from_utf8(told.ok()?.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    let minor: String = minor.chars().take_while(char::is_ascii_digit).collect();
    Some((major.parse().ok()?, minor.parse().ok()?))
}
