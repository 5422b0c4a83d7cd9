//! Prints how well the link player keeps rate and delay on this machine:
//! `cargo run --release -p mpbond-lab --example accuracy`.

use std::process::ExitCode;

use mpbond_lab::{AccuracyRow, player_accuracy};

fn main() -> ExitCode {
    match player_accuracy() {
        Ok(report) => {
            println!("{report}");
            let all = report.rows.iter().all(AccuracyRow::holds);
            ExitCode::from(u8::from(!all))
        }
        Err(e) => {
            eprintln!("{e}");
            ExitCode::from(e.exit_code())
        }
    }
}
