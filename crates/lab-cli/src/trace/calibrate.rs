//! `mpbond trace calibrate`: the cost of tracing one call.

use std::path::PathBuf;

use clap::Args;
use mpbond_command::{Failure, print};
use mpbond_systrace::{Calibration, read};

use super::form::json;
use super::input::{bad, open};

/// Cost of tracing one call, from method traces of a function without content.
///
/// Record a program that calls an empty method some ten thousand times in a loop. The mean time of
/// those calls, without the longest 1 %, is the --overhead of other traces of the same device.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond trace calibrate noop1.trace noop2.trace
  mpbond trace calibrate noop.trace --function Noop.call --json
  mpbond trace functions app.trace --overhead 2.53us")]
pub(crate) struct CalibrateArgs {
    /// Method traces; "-" is standard input.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Part of the function's name [default: the most frequent that calls no other].
    #[arg(long, value_name = "NAME")]
    function: Option<String>,
    /// Print JSON; numbers have their unit in their name.
    #[arg(long)]
    json: bool,
    /// Print no progress.
    #[arg(long, short)]
    quiet: bool,
}

impl CalibrateArgs {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let mut calibrations = Vec::new();
        for file in &self.files {
            let mut calibration = Calibration::default();
            read(open(file, self.quiet)?, &mut calibration).map_err(|e| bad(file, &e))?;
            let overhead = calibration
                .overhead(self.function.as_deref())
                .map_err(|e| Failure::input(format_args!("{}: {e}", file.display())))?;
            calibrations.push(overhead);
        }
        if self.json {
            return json(&calibrations);
        }
        let mut text = String::new();
        for (file, o) in self.files.iter().zip(&calibrations) {
            text += &format!(
                "{}: {} calls of {}: {:.3} µs each, standard deviation {:.3} µs.\n",
                file.display(),
                o.calls,
                o.function,
                o.overhead_ns as f64 / 1e3,
                o.deviation_ns as f64 / 1e3
            );
        }
        let sum: u64 = calibrations.iter().map(|o| o.overhead_ns).sum();
        let mean = sum as f64 / 1e3 / calibrations.len() as f64;
        print(&(text + &format!("--overhead {mean:.3}us\n")))
    }
}
