//! `mpbond`: one program for all roles. The subcommands are in [`cli`], one file each.
#![deny(unsafe_code)]

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
