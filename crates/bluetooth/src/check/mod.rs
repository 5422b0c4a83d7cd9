//! `mpbond bluetooth check`.

mod pipe;
mod process;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use mpbond_command::{Failure, print};
use serde_json::{Value, json};

use crate::address::DeviceAddress;
use crate::bonds::{self, Bond};
use crate::channels::Channels;
use crate::radio::no_adapter;
use crate::reason::reason;
use crate::sys::hci::{Adapter, adapters};
use crate::sys::rfcomm::{self, Security};
use pipe::{Finding, Verdict};
use process::Carrier;

/// Show adapters, channels and bonded devices, and what prevents pipes over Bluetooth.
///
/// Bonded devices are read from BlueZ's files, which root alone may read.
///
/// With --socket it is about one pipe: whether the process that carries it runs, its adapter is on,
/// its device is bonded, and a channel answers. `mpbond doctor` shows the same for the pipes in a
/// configuration.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo mpbond bluetooth check
  sudo mpbond bluetooth check --socket /run/mpbond/phone.sock

Exit codes: 0 an adapter is switched on, or nothing about the pipe fails; 1 not so.")]
pub(crate) struct CheckArgs {
    /// Server channels of the pipes.
    #[arg(
        long,
        value_name = "FIRST-LAST",
        default_value = "22-29",
        conflicts_with = "socket"
    )]
    channels: Channels,
    /// The --socket of `mpbond bluetooth connect` or `listen`, as their command line has it.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Print JSON, for programs.
    #[arg(long, requires = "socket")]
    json: bool,
}

impl CheckArgs {
    pub fn run(self) -> Result<ExitCode, Failure> {
        if let Some(socket) = &self.socket {
            let findings = findings(socket)?;
            print(&match self.json {
                true => as_json(&findings),
                false => as_text(&findings),
            })?;
            let failed = findings.iter().any(|f| f.verdict == Verdict::Fail);
            return Ok(ExitCode::from(u8::from(failed)));
        }
        rfcomm::socket(Security::Encrypted).map_err(|e| Failure::run(reason(&e)))?;
        let adapters = adapters().map_err(|e| Failure::run(reason(&e)))?;
        let taken = taken(self.channels, &adapters)?;
        print(&report(&adapters, self.channels, &taken))?;
        print(&bonded(bonds::read(Path::new(bonds::FOLDER))))?;
        if !adapters.iter().any(|adapter| adapter.is_up) {
            return Err(Failure::run(no_adapter(&adapters)));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Findings about the pipe with this socket.
fn findings(socket: &Path) -> Result<Vec<Finding>, Failure> {
    let carrier = process::carrier_of(socket, Path::new("/proc"))
        .map_err(|e| Failure::run(format_args!("/proc: {e}")))?;
    let (what, radio, devices) = match &carrier {
        Some(Carrier::Connect(args)) => ("connect", &args.radio, vec![args.device]),
        Some(Carrier::Listen(args)) => ("listen", &args.radio, args.device.clone()),
        None => {
            let detail = format!(
                "no `mpbond bluetooth` runs here with --socket {}",
                socket.display()
            );
            let advice = "if the pipe is one over Bluetooth, start it: docs/pipes.md has the unit \
                          mpbond-bluetooth@NAME";
            return Ok(vec![
                Finding::new(Verdict::Skip, detail).with_advice(advice),
            ]);
        }
    };
    let detail = format!("`mpbond bluetooth {what}` carries this pipe");
    let mut findings = vec![Finding::new(Verdict::Ok, detail)];
    let adapters = rfcomm::socket(radio.security()).and_then(|_| adapters());
    let adapters = match adapters {
        Ok(adapters) => adapters,
        Err(e) => {
            findings.push(Finding::failed(&reason(&e)));
            return Ok(findings);
        }
    };
    let adapter = pipe::adapter(&adapters, radio);
    let is_on = adapter.verdict == Verdict::Ok;
    findings.push(adapter);
    let known = bonds::read(Path::new(bonds::FOLDER));
    findings.extend(pipe::bonded(&devices, radio.security(), &known));
    match &carrier {
        Some(Carrier::Connect(args)) if is_on => {
            let named = radio.adapter.as_ref();
            let named = named.and_then(|name| adapters.iter().find(|a| a.name == *name));
            let source = named.map_or(DeviceAddress::ANY, |adapter| adapter.address);
            findings.push(pipe::answers(args.device, args.try_a_channel(source)));
        }
        Some(Carrier::Listen(_)) => {
            let taken = taken(radio.channels, &adapters)?;
            findings.push(pipe::listens(radio.channels, &taken));
        }
        _ => {}
    }
    Ok(findings)
}

fn as_json(findings: &[Finding]) -> String {
    let findings = findings.iter().map(|finding| {
        json!({
            "verdict": finding.verdict.name(),
            "detail": finding.detail,
            "advice": finding.advice,
        })
    });
    format!("{:#}\n", Value::from_iter(findings))
}

fn as_text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let _ = writeln!(text, "{:<4}  {}", finding.verdict.name(), finding.detail);
        if let Some(advice) = &finding.advice {
            let _ = writeln!(text, "      -> {advice}");
        }
    }
    text
}

/// Channels on which a program listens on this machine.
fn taken(channels: Channels, adapters: &[Adapter]) -> Result<Vec<u8>, Failure> {
    let mut taken = Vec::new();
    for channel in channels.iter() {
        // A socket that listens at one adapter and one that listens at all do not see each other.
        let places = adapters.iter().map(|a| a.address);
        for place in places.chain([DeviceAddress::ANY]) {
            let bound = rfcomm::address(place, channel)
                .and_then(|address| rfcomm::socket(Security::Encrypted)?.bind(&address));
            match bound {
                Ok(()) => continue,
                Err(e) if e.kind() == std::io::ErrorKind::AddrInUse => taken.push(channel),
                Err(e) => {
                    let reason = reason(&e);
                    return Err(Failure::run(format_args!("channel {channel}: {reason}")));
                }
            }
            break;
        }
    }
    Ok(taken)
}

fn report(adapters: &[Adapter], channels: Channels, taken: &[u8]) -> String {
    let mut text = String::new();
    for adapter in adapters {
        let state = if adapter.is_up { "on" } else { "off" };
        let _ = writeln!(
            text,
            "adapter   {}  {}  {state}",
            adapter.name, adapter.address
        );
    }
    if adapters.is_empty() {
        text.push_str("adapter   none\n");
    }
    let _ = write!(text, "channels  {channels}: ");
    if taken.is_empty() {
        text.push_str("no program listens on them here\n");
    } else {
        let taken: Vec<_> = taken.iter().map(u8::to_string).collect();
        let _ = writeln!(text, "a program listens here on {}", taken.join(", "));
    }
    text
}

fn bonded(bonds: std::io::Result<Vec<Bond>>) -> String {
    match bonds {
        Ok(bonds) if bonds.is_empty() => "bonded    none\n".to_owned(),
        Ok(bonds) => {
            let mut text = String::new();
            for bond in bonds {
                let _ = writeln!(text, "bonded    {}  {}", bond.device, bond.name);
            }
            text
        }
        Err(e) => format!("bonded    not known: {}: {e}\n", bonds::FOLDER),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_lines_with_advice_below_or_json() {
        let findings = [
            Finding::new(Verdict::Ok, "hci0 is on"),
            Finding::new(Verdict::Fail, "not paired").with_advice("pair it"),
        ];
        let text = "ok    hci0 is on\nfail  not paired\n      -> pair it\n";
        assert_eq!(as_text(&findings), text);
        let expected = json!([
            { "verdict": "ok", "detail": "hci0 is on", "advice": null },
            { "verdict": "fail", "detail": "not paired", "advice": "pair it" },
        ]);
        assert_eq!(as_json(&findings).parse::<Value>().unwrap(), expected);
    }

    /// Nor does it need Bluetooth in the kernel to tell so.
    #[test]
    fn without_a_process_nothing_is_known_of_a_pipe() {
        let folder = tempfile::tempdir().unwrap();
        let [finding] = &findings(&folder.path().join("phone.sock")).unwrap()[..] else {
            panic!("not one finding");
        };
        assert_eq!(finding.verdict, Verdict::Skip);
        assert!(finding.detail.contains("phone.sock"), "{finding:?}");
    }

    #[test]
    fn a_report_has_adapters_channels_and_bonds() {
        let channels: Channels = "22-29".parse().unwrap();
        let address: DeviceAddress = "00:1A:7D:DA:71:13".parse().unwrap();
        let adapter = |name: &str, is_up| Adapter {
            number: 0,
            name: name.to_owned(),
            address,
            is_up,
        };
        let text = report(
            &[adapter("hci0", true), adapter("hci1", false)],
            channels,
            &[22, 24],
        );
        let expected = "adapter   hci0  00:1A:7D:DA:71:13  on\n\
                        adapter   hci1  00:1A:7D:DA:71:13  off\n\
                        channels  22-29: a program listens here on 22, 24\n";
        assert_eq!(text, expected);
        let text = report(&[], channels, &[]);
        assert_eq!(
            text,
            "adapter   none\nchannels  22-29: no program listens on them here\n"
        );
        let bond = Bond {
            device: address,
            name: "phone".to_owned(),
        };
        assert_eq!(
            bonded(Ok(vec![bond])),
            "bonded    00:1A:7D:DA:71:13  phone\n"
        );
        assert_eq!(bonded(Ok(Vec::new())), "bonded    none\n");
        let denied = std::io::Error::from_raw_os_error(libc::EACCES);
        assert!(bonded(Err(denied)).starts_with("bonded    not known: /var/lib/bluetooth: "));
    }
}
