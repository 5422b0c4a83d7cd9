//! `mpbond link`: any program behind one emulated link.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use mpbond_command::Failure;
use mpbond_lab::player::Logs;
use mpbond_lab::{EmulateOptions, Forward, emulate};
use mpbond_sim::link::{LinkSpec, Queue, RateSpec};
use mpbond_units::duration_text;
use serde::Deserialize;

/// Run a program behind an emulated link.
///
/// The program runs in its own network, whose only way out is the link. TCP to any address and DNS
/// are carried: at the end of the link a relay forwards them from this machine's network. Other
/// UDP, ICMP, IPv6 and connections to the program are not carried. This machine's own services
/// (127.0.0.1) are at the address in MPBOND_GATEWAY. This machine's network is not changed. Root is
/// not needed where the kernel allows user namespaces.
///
/// The exit code is the program's; 127 where there is no such program, 2 for wrong usage, 3 where
/// the machine lacks something.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond link --down '8 Mbit/s' --up '2 Mbit/s' --delay 25ms -- curl -O http://example.com/file
  mpbond link --down Verizon-LTE-short.down --up Verizon-LTE-short.up --delay 20ms -- firefox
  mpbond link --down '{ profile = \"wifi.csv\", unit = \"byte/s\", offset = \"12s\" }' --up 10
  mpbond link --down 8 --up 8 -- sh -c 'curl http://$MPBOND_GATEWAY:8000/'   # this machine's port 8000
  mpbond link --down 1 --up 1 --loss 0.01 --queue '64000 bytes' --packet-log log.csv -- wget ...
  mpbond link --down 30 --up 30 --half-duplex --forward 80=web.example:8080 -- ./client")]
pub(crate) struct LinkArgs {
    /// Rate towards the program: "8 Mbit/s", a number of Mbit/s, "unlimited", a trace file in
    /// mm-link's format, or a rate as in an experiment file: { mahimahi = "FILE", offset = "30s" },
    /// { profile = "FILE", unit = "byte/s" }, [["0s", "8 Mbit/s"], ["2s", "1 Mbit/s"]].
    #[arg(long, value_name = "RATE", value_parser = rate)]
    down: RateSpec,
    /// Rate away from the program.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    up: RateSpec,
    /// Propagation delay, each way.
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = duration_text::parse)]
    delay: Duration,
    /// Maximum additional delay of each packet.
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = duration_text::parse)]
    jitter: Duration,
    /// Length of the queue, each way: a time such as 100ms, or "150000 bytes".
    #[arg(long, value_name = "LENGTH", default_value = "100ms", value_parser = Queue::from_str)]
    queue: Queue,
    /// Packet loss probability, each way.
    #[arg(long, value_name = "P", default_value = "0", value_parser = probability)]
    loss: f64,
    /// Both directions share the airtime, as on WiFi.
    #[arg(long)]
    half_duplex: bool,
    /// Hold packets while this radio wakes up, such as lte-2012.
    #[arg(long, value_name = "PROFILE")]
    radio: Option<String>,
    /// Connections to the gateway's PORT go to HOST:PORT; may be repeated. Its other ports are
    /// those of 127.0.0.1.
    #[arg(long = "forward", value_name = "PORT=HOST:PORT", value_parser = Forward::from_str)]
    forwards: Vec<Forward>,
    /// Seed of losses and jitter.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Log every packet there, as CSV (docs/packet-log.md).
    #[arg(long, value_name = "FILE")]
    packet_log: Option<PathBuf>,
    /// Capture what the program sends and receives: link.pcap in this folder.
    #[arg(long, value_name = "FOLDER")]
    pcap: Option<PathBuf>,
    /// The program and its arguments; $SHELL when none is given.
    #[arg(last = true, value_name = "CMD")]
    program: Vec<OsString>,
}

impl LinkArgs {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let link = |rate| {
            let mut link = LinkSpec::new(rate)
                .with_delay(self.delay)
                .with_queue(self.queue);
            link.jitter = self.jitter;
            link.loss = self.loss;
            link
        };
        let options = EmulateOptions {
            down: link(self.down),
            up: link(self.up),
            half_duplex: self.half_duplex,
            radio: self.radio,
            seed: self.seed,
            logs: Logs {
                packets: self.packet_log,
                pcap: self.pcap,
            },
            forwards: self.forwards,
            program: self.program,
        };
        let code = emulate(&options).map_err(|e| Failure::with_code(&e, e.exit_code()))?;
        Ok(ExitCode::from(code))
    }
}

/// A rate as in an experiment file, or the name of a trace file.
fn rate(text: &str) -> Result<RateSpec, String> {
    #[derive(Deserialize)]
    struct Line {
        rate: RateSpec,
    }
    let text = text.trim();
    let is_number = text.parse::<f64>().is_ok();
    if text.starts_with(['{', '[']) || is_number {
        return toml::from_str(&format!("rate = {text}"))
            .map(|line: Line| line.rate)
            .map_err(|e| e.message().replace('\n', "; "));
    }
    if text == "unlimited" {
        return Ok(RateSpec::Unlimited);
    }
    match text.parse() {
        Ok(rate) => Ok(RateSpec::Constant(rate)),
        Err(_) if Path::new(text).exists() => Ok(RateSpec::Mahimahi {
            file: text.to_owned(),
            offset: Duration::ZERO,
        }),
        Err(e) => Err(format!("{e}, and there is no such file")),
    }
}

fn probability(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(p) if (0.0..=1.0).contains(&p) => Ok(p),
        _ => Err("a probability is from 0 to 1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use mpbond_units::BitRate;

    use super::*;

    #[test]
    fn rates_are_read() {
        let eight = RateSpec::Constant(BitRate::from_mbps(8.0));
        assert_eq!(rate("8 Mbit/s").unwrap(), eight);
        assert_eq!(rate("8").unwrap(), eight);
        assert_eq!(rate("8.0").unwrap(), eight);
        assert_eq!(rate("unlimited").unwrap(), RateSpec::Unlimited);
        assert!(matches!(
            rate(file!()),
            Err(_) | Ok(RateSpec::Mahimahi { .. })
        ));
        assert!(matches!(
            rate("{ mahimahi = \"a.down\", offset = \"3s\" }").unwrap(),
            RateSpec::Mahimahi { offset, .. } if offset == Duration::from_secs(3)
        ));
        assert!(matches!(
            rate("[[\"0s\", 8], [\"2s\", 1]]").unwrap(),
            RateSpec::Schedule(steps) if steps.len() == 2
        ));
        for (bad, words) in [
            ("fast", "no such file"),
            ("-1", "negative"),
            ("{ mahimahi = 3 }", "string"),
            ("{ profile = \"a\" }", "unit"),
            ("[", "rate"),
        ] {
            let e = rate(bad).unwrap_err();
            assert!(!e.contains('\n'), "{bad}: {e}");
            assert!(e.contains(words) || bad == "[", "{bad}: {e}");
        }
    }
}
