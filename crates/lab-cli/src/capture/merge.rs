//! `mpbond capture merge`: one capture from those of several sniffers.

use std::fmt::Write as _;
use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use mpbond_capture::wifi::{Bridging, MergeReport, Sniffer, Times, merge_by};
use mpbond_command::{Failure, print};

use super::files::{ended, open};

/// Merge 802.11 captures of several sniffers into one.
///
/// Clocks are compared by common frames (beacons where there are enough); they need not agree or
/// run at a constant rate. Each transmission is written once, in the clock of the first capture;
/// duplicates of one sniffer are dropped, retransmissions kept. Each packet's comment names the
/// sniffers that captured it (origin=1+3); there is one interface per sniffer.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond capture merge derived_wltrace_s0.pcap derived_wltrace_s1.pcap -o merged.pcapng
  mpbond capture merge fryza_2024-03-07_pos1.pcap fryza_2024-03-07_pos2.pcap --json")]
pub(crate) struct MergeArgs {
    /// The main capture, and others of the same channel and time.
    #[arg(value_name = "FILE", num_args = 2.., required = true)]
    files: Vec<PathBuf>,
    /// Write the merged capture, as pcapng.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Keep the main sniffer's timestamps, instead of the mean of all.
    #[arg(long)]
    main_times: bool,
    /// Conversion of times between the sniffers' clocks.
    #[arg(long, value_enum, default_value = "fit", value_name = "HOW")]
    clocks: ClocksBy,
    /// One line of JSON instead of text.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ClocksBy {
    /// By a piecewise linear function of all common frames.
    Fit,
    /// By the closest common frame before, at equal rates (Delay, equation 5).
    Nearest,
    /// By the closest common frame before, and the clocks' skew (Delay, equation 4).
    NearestSkew,
}

impl MergeArgs {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let mut sniffers = Vec::new();
        for path in &self.files {
            let (name, from) = open(path)?;
            sniffers.push(Sniffer::read(&name, from).map_err(Failure::input)?);
        }
        let times = if self.main_times {
            Times::Main
        } else {
            Times::Consensus
        };
        let bridging = match self.clocks {
            ClocksBy::Fit => Bridging::Fit,
            ClocksBy::Nearest => Bridging::Nearest,
            ClocksBy::NearestSkew => Bridging::NearestSkew,
        };
        let merged = merge_by(&sniffers, times, bridging).map_err(Failure::input)?;
        if let Some(path) = &self.output {
            let failed = |e| Failure::run(format_args!("{}: {e}", path.display()));
            let file = File::create(path).map_err(failed)?;
            merged.write(BufWriter::new(file)).map_err(failed)?;
        }
        let report = &merged.report;
        if self.json {
            let line = serde_json::to_string(report).map_err(Failure::run)?;
            print(&(line + "\n"))?;
        } else {
            print(&text(report))?;
        }
        let incomplete = report.inputs.iter().find_map(|i| i.incomplete.as_ref());
        Ok(ended("merge", incomplete))
    }
}

fn text(r: &MergeReport) -> String {
    let mut out = String::new();
    for input in &r.inputs {
        let _ = writeln!(
            out,
            "{}: {} frames ({} damaged, {} others, {} duplicates left out), about {:.1} % missed",
            input.file,
            input.frames,
            input.damaged,
            input.others,
            input.duplicates,
            input.loss * 100.0
        );
        if input.reference_frames > 0 {
            let _ = writeln!(
                out,
                "  clock: {:+.1} us at the start, {:+.3} ppm; {} reference frames ({} \
                 outliers left out), residual median {:.1} us, p95 {:.1} us, {} pieces",
                input.offset_us,
                input.skew_ppm,
                input.reference_frames,
                input.outliers,
                input.residual_median_us,
                input.residual_p95_us,
                input.clock_pieces
            );
        }
    }
    let _ = writeln!(
        out,
        "merged: {} frames, {} of them not in the first capture; {} numbered ({} \
         retransmissions), {} ACK and CTS; completeness {:.2} %",
        r.merged_frames,
        r.recovered,
        r.numbered_frames,
        r.retransmissions,
        r.anonymous_frames,
        r.completeness * 100.0
    );
    let _ = writeln!(
        out,
        "retransmissions are apart when stamps differ by over {:.0} us; {} frames were near more \
         than one",
        r.tolerance_us, r.ambiguous
    );
    out
}
