//! `mpbond capture bt`: Bluetooth logs.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use mpbond_capture::bluetooth::{BluetoothReport, Link, ResetBy, Side, analyse};
use mpbond_command::{Failure, print};

use super::files::{ended, open, write};

/// Analyse a Bluetooth log: modes of links and which side requested them, throughput, undesired
/// Sniff modes.
///
/// Reads btsnoop (Android's btsnoop_hci.log, btmon), Apple's PacketLogger, and pcap or pcapng with
/// Bluetooth, each gzipped or not.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond capture bt a2dp_motog2013_lghbs730.btsnoop.log
  mpbond capture bt oppo_earbuds_1.btsnoop.log --json | jq '.links[].dwell_s'
  mpbond capture bt a2dp_motog2013_lghbs730.btsnoop.log --svg modes.svg")]
pub(crate) struct BtArgs {
    /// The log.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// One line of JSON instead of text.
    #[arg(long)]
    json: bool,
    /// Draw throughput, modes and requests over time.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

impl BtArgs {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let (name, from) = open(&self.file)?;
        let report = analyse(&name, from).map_err(Failure::input)?;
        if let Some(path) = &self.svg {
            let file = self.file.file_name().unwrap_or_default().display();
            let title = format!("Bluetooth links over time, in {file}");
            write(path, report.to_svg(&title).as_bytes())?;
        }
        if self.json {
            let line = serde_json::to_string(&report).map_err(Failure::run)?;
            print(&(line + "\n"))?;
        } else {
            print(&text(&report))?;
        }
        Ok(ended("bt", report.incomplete.as_ref()))
    }
}

fn text(r: &BluetoothReport) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{} records in {:.3} s: {} ACL, {} L2CAP, {} RFCOMM packets ({} more by their form)",
        r.records, r.last_record_s, r.acl, r.l2cap, r.rfcomm, r.rfcomm_by_form
    );
    let sniffs = r.mode_changes.iter().filter(|c| c.mode == "sniff").count();
    let _ = writeln!(
        out,
        "{} mode changes, {sniffs} into Sniff: {} asked for by this end, {} by the other; \
         commands: {} Sniff, {} Exit Sniff",
        r.mode_changes.len(),
        r.sniff_asked_by.local,
        r.sniff_asked_by.peer,
        r.commands.sniff,
        r.commands.exit_sniff
    );
    for link in &r.links {
        link_text(&mut out, link);
    }
    for note in &r.notes {
        let _ = writeln!(out, "note: {note}");
    }
    out
}

fn link_text(out: &mut String, link: &Link) {
    let d = &link.dwell_s;
    let _ = writeln!(
        out,
        "\nhandle 0x{:03x}{}: Active {:.3} s, Sniff {:.3} s, before the first change {}",
        link.handle,
        match link.connection {
            0 => String::new(),
            n => format!(" (connection {})", n + 1),
        },
        d.active,
        d.sniff,
        match link.connected_s {
            Some(_) => format!("{:.3} s (Active)", d.active_before_first_change),
            None => format!("{:.3} s (not known)", d.unknown),
        }
    );
    for t in &link.throughput {
        let direction = match t.direction {
            mpbond_capture::bluetooth::Direction::Sent => "sent",
            mpbond_capture::bluetooth::Direction::Received => "received",
        };
        let _ = write!(out, "  {direction} {} bytes", t.bytes);
        if let Some(kbps) = t.mean_kbps {
            let _ = write!(
                out,
                ", {kbps:.1} kbit/s over {:.1} s; {} blackouts, the longest {:.1} s; {:.1} % of \
                 200 ms bins empty",
                t.transfer_s,
                t.blackouts.count,
                t.blackouts.longest_s,
                t.blackouts.empty_bin_share * 100.0
            );
        }
        out.push('\n');
    }
    for t in &link.state_machine.timers {
        let side = match t.side {
            Side::Local => "this end",
            Side::Peer => "the other end",
        };
        let _ = write!(out, "  {side} asked for Sniff {} times", t.entries);
        if let (Some(timer), Some(spread)) = (t.timer_s, t.spread_s) {
            let reset = match t.reset_by {
                ResetBy::Both => "any traffic restarts it",
                ResetBy::Sent => "only what it sends restarts it",
                ResetBy::Unknown => "what restarts it does not show",
            };
            let _ = write!(
                out,
                ", {timer:.3} s (± {spread:.3}) after its timer's start; {reset}"
            );
        }
        out.push('\n');
    }
    let total: f64 = link
        .undesired_sniff
        .iter()
        .map(|u| u.end_s - u.start_s)
        .sum();
    if !link.undesired_sniff.is_empty() {
        let _ = writeln!(
            out,
            "  {} times undesired Sniff (entered while receiving), {total:.3} s in all, first at \
             {:.3} s",
            link.undesired_sniff.len(),
            link.undesired_sniff.first().map_or(0.0, |u| u.start_s)
        );
    }
}
