//! Runs an experiment file without the `mpbond` binary's own command line:
//! `cargo run -p mpbond-lab --example lab -- FILE [SCHEME]`, with the daemons
//! from the binary that `MPBOND` names. The environment
//! variables `JSON`, `OUT`, `PACKET_LOG`, `RESUME` and `REPETITIONS` stand for
//! the options of those names.

use std::path::PathBuf;
use std::process::ExitCode;

use mpbond_lab::{RunOptions, run};

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let Some(file) = args.next() else {
        eprintln!("usage: lab FILE [SCHEME]");
        return ExitCode::from(2);
    };
    let path = |variable| std::env::var_os(variable).map(PathBuf::from);
    let options = RunOptions {
        schemes: args.collect(),
        binary: path("MPBOND"),
        json: path("JSON"),
        out: path("OUT"),
        packet_log: path("PACKET_LOG"),
        resume: path("RESUME"),
        repetitions: std::env::var("REPETITIONS")
            .ok()
            .and_then(|n| n.parse().ok()),
        ..RunOptions::default()
    };
    match run(file.as_ref(), &options) {
        Ok(report) => ExitCode::from(report.verdict().exit_code()),
        Err(e) => {
            eprintln!("{e}");
            ExitCode::from(e.exit_code())
        }
    }
}
