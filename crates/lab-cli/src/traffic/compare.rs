//! `mpbond traffic compare`.

use std::io::IsTerminal;
use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use mpbond_command::{Failure, print, prompt};
use mpbond_lab::bulk::{CompareOptions, Comparer, Comparison, Costs, LEAST_SAVING, compare};
use mpbond_units::{BitRate, duration_text};

use super::client::split;
use crate::lab::failed;

/// Exit code where nothing failed, but the machines were too busy to judge.
const BUSY: u8 = 4;

/// Measure whether Ethernet frames take less processor time than TCP between two devices.
///
/// Transfers over TCP and over frames run in turn, beside an idle machine. Each device measures all
/// of its processors, and both are added up. Frames pay (`ethernet_frames` of primary and helper)
/// where the lower end of the 95 % interval of the saving is 10 % or more. Needs CAP_NET_RAW at
/// both, and devices that do nothing else.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo mpbond traffic compare --listen 192.0.2.9:7008      at one device, first
  sudo mpbond traffic compare 192.0.2.9                    at the other one, on the same link

Exit code 0 when it was measured, 1 when a transfer failed, 4 when the devices were too busy.")]
pub(crate) struct CompareArgs {
    /// The other device: a name or address, with a port where it is not 7008.
    #[arg(value_name = "HOST[:PORT]")]
    host: Option<String>,
    /// Wait at this address for the other device, once. There is no authentication: listen where
    /// only that device can connect.
    #[arg(
        long,
        value_name = "ADDRESS",
        conflicts_with_all = ["host", "rate", "tick", "duration", "repetitions", "json"]
    )]
    listen: Option<SocketAddr>,
    /// Rate of each transfer.
    #[arg(long, value_name = "RATE", default_value = "24 Mbit/s")]
    rate: BitRate,
    /// Interval at which what is due is sent, as by a helper's relay: up to 5ms.
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = duration_text::parse)]
    tick: Duration,
    /// Length of each of the three runs of a repetition.
    #[arg(short, long, value_name = "TIME", default_value = "5s", value_parser = duration_text::parse)]
    duration: Duration,
    /// Number of repetitions.
    #[arg(long, value_name = "N", default_value_t = 8)]
    repetitions: u32,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

impl CompareArgs {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        if let Some(listen) = self.listen {
            let comparer = Comparer::open(listen).map_err(failed)?;
            let address = comparer.address().map_err(failed)?;
            print(&format!("waits for the other device at {address}\n"))?;
            comparer.serve().map_err(failed)?;
            return Ok(ExitCode::SUCCESS);
        }
        let Some(host) = &self.host else {
            return Err(Failure::input(
                "the other device is missing: HOST, or --listen ADDRESS",
            ));
        };
        let wrong = |e| Failure::input(format_args!("{host}: {e}"));
        let mut to = split(host)?.to_socket_addrs().map_err(wrong)?;
        let to = to.next();
        let to = to.ok_or_else(|| Failure::input(format_args!("{host}: no such address")))?;
        let options = CompareOptions {
            to,
            rate: self.rate,
            tick: self.tick,
            duration: self.duration,
            repetitions: self.repetitions,
        };
        let live = std::io::stderr().is_terminal();
        let mut count = 0;
        let result = compare(&options, |costs| {
            count += 1;
            if live {
                prompt!("\r{count} of {}: {}   ", self.repetitions, line(costs));
            }
        });
        if live {
            prompt!("\r\x1b[K");
        }
        let result = result.map_err(failed)?;
        match self.json {
            true => {
                let text = serde_json::to_string(&result).map_err(Failure::run)?;
                print(&(text + "\n"))?;
            }
            false => print(&text(&result))?,
        }
        Ok(ExitCode::from(match result.pays {
            Some(_) => 0,
            None => BUSY,
        }))
    }
}

fn line(costs: &Costs) -> String {
    match costs.is_undisturbed {
        true => format!("TCP {:.2} s/GB, frames {:.2} s/GB", costs.tcp_s, costs.l2_s),
        false => "disturbed: other programs ran".to_owned(),
    }
}

fn text(result: &Comparison) -> String {
    let mut text = String::new();
    for costs in &result.repetitions {
        text += &format!("{}\n", line(costs));
    }
    let least = LEAST_SAVING * 100.0;
    text += &match (result.saving, result.interval, result.pays) {
        (Some(saving), Some((low, high)), Some(pays)) => format!(
            "frames save {:.0} % of the processor time of both devices (95 %: {:.0} to {:.0} %)\n\
             {}, which pays from {least:.0} % on\n",
            saving * 100.0,
            low * 100.0,
            high * 100.0,
            match pays {
                true => "set `ethernet_frames = true` at both",
                false => "leave `ethernet_frames` off",
            }
        ),
        _ => {
            let quiet = result
                .repetitions
                .iter()
                .filter(|c| c.is_undisturbed)
                .count();
            format!(
                "not judged: {quiet} of {} repetitions were undisturbed, and half of them have to \
                 be, at least 2: end other programs, and repeat\n",
                result.repetitions.len()
            )
        }
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_says_what_to_do() {
        let of = |saving, interval, pays: Option<bool>| {
            text(&Comparison {
                repetitions: vec![Costs {
                    tcp_s: 4.0,
                    l2_s: 3.0,
                    is_undisturbed: pays.is_some(),
                }],
                saving,
                interval,
                pays,
            })
        };
        let good = of(Some(0.25), Some((0.2, 0.3)), Some(true));
        assert_eq!(
            good,
            "TCP 4.00 s/GB, frames 3.00 s/GB\n\
             frames save 25 % of the processor time of both devices (95 %: 20 to 30 %)\n\
             set `ethernet_frames = true` at both, which pays from 10 % on\n"
        );
        let bad = of(Some(-0.7), Some((-0.8, -0.6)), Some(false));
        assert!(bad.contains("save -70 %") && bad.contains("leave `ethernet_frames` off"));
        let busy = of(None, None, None);
        assert!(
            busy.contains("disturbed: other programs ran\nnot judged: 0 of 1 repetitions were"),
            "{busy}"
        );
    }
}
