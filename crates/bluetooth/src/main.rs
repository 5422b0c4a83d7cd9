//! The program `mpbond-bluetooth`.
#![deny(unsafe_code)]

fn main() -> std::process::ExitCode {
    mpbond_bluetooth::main()
}
