//! Findings about one pipe: adapter, bonds and channels that its process needs.

use std::io;

use crate::address::DeviceAddress;
use crate::bonds::{self, Bond};
use crate::channels::Channels;
use crate::radio::{RadioArgs, no_adapter};
use crate::sys::hci::Adapter;
use crate::sys::rfcomm::Security;

/// Severity of a finding, in the words of `mpbond doctor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Ok,
    Skip,
    Warn,
    Fail,
}

impl Verdict {
    /// The word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Skip => "skip",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub verdict: Verdict,
    pub detail: String,
    /// What to do about it.
    pub advice: Option<String>,
}

impl Finding {
    pub fn new(verdict: Verdict, detail: impl Into<String>) -> Self {
        Self {
            verdict,
            detail: detail.into(),
            advice: None,
        }
    }

    pub fn with_advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// A failure whose line has the remedy behind a colon.
    pub fn failed(line: &str) -> Self {
        match line.split_once(": ") {
            Some((detail, advice)) => Self::new(Verdict::Fail, detail).with_advice(advice),
            None => Self::new(Verdict::Fail, line),
        }
    }
}

/// The adapter that the process uses: the one that it names, or any that is on.
pub(super) fn adapter(adapters: &[Adapter], radio: &RadioArgs) -> Finding {
    let named = |adapter: &&Adapter| radio.adapter.as_ref().is_none_or(|n| *n == adapter.name);
    let mut usable = adapters.iter().filter(named);
    if let Some(on) = usable.clone().find(|adapter| adapter.is_up) {
        return Finding::new(Verdict::Ok, format!("{} ({}) is on", on.name, on.address));
    }
    match (&radio.adapter, usable.next()) {
        (Some(name), None) => {
            // It is from another process's command line.
            let detail = format!("there is no adapter {}", name.escape_debug());
            Finding::new(Verdict::Fail, detail)
                .with_advice("`mpbond bluetooth check` shows those that there are")
        }
        (Some(name), Some(_)) => Finding::new(Verdict::Fail, format!("{name} is switched off"))
            .with_advice("try `bluetoothctl power on`, and `rfkill list`"),
        (None, _) => Finding::failed(&no_adapter(adapters)),
    }
}

/// The bonds of this machine with the devices of a pipe; with any device, where none is named.
pub(super) fn bonded(
    devices: &[DeviceAddress],
    security: Security,
    known: &io::Result<Vec<Bond>>,
) -> Vec<Finding> {
    if security == Security::Any {
        let detail = "the devices need not be paired: --unencrypted is given";
        return vec![
            Finding::new(Verdict::Warn, detail)
                .with_advice("any device in range can connect, and is refused by the daemons"),
        ];
    }
    let known = match known {
        Ok(known) => known,
        Err(e) => {
            let detail = format!("paired devices: not checked: {}: {e}", bonds::FOLDER);
            let advice = "root alone may read it";
            return vec![match e.kind() {
                io::ErrorKind::PermissionDenied => {
                    Finding::new(Verdict::Skip, detail).with_advice(advice)
                }
                _ => Finding::new(Verdict::Skip, detail),
            }];
        }
    };
    if devices.is_empty() && known.is_empty() {
        return vec![
            Finding::new(Verdict::Fail, "no device is paired with this machine")
                .with_advice("pair the primary's device by `bluetoothctl`"),
        ];
    }
    let mut of_devices: Vec<_> = devices.to_vec();
    if devices.is_empty() {
        of_devices.extend(known.iter().map(|bond| bond.device));
    }
    let finding = |device: DeviceAddress| match known.iter().find(|bond| bond.device == device) {
        Some(bond) => Finding::new(
            Verdict::Ok,
            format!("{device} (\"{}\") is paired", bond.name),
        ),
        None => Finding::new(
            Verdict::Fail,
            format!("{device} is not paired with this machine"),
        )
        .with_advice(format!(
            "`bluetoothctl pair {device}`, with the device discoverable"
        )),
    };
    of_devices.into_iter().map(finding).collect()
}

/// The channels of a process that listens, of which these have a listener.
pub(super) fn listens(channels: Channels, taken: &[u8]) -> Finding {
    match taken.len() {
        0 => Finding::new(
            Verdict::Fail,
            format!("no program listens on channels {channels}"),
        )
        .with_advice("look into the log of `mpbond bluetooth listen`"),
        some if some < channels.count() => {
            let detail = format!("programs listen on {some} of channels {channels} only");
            Finding::new(Verdict::Warn, detail)
                .with_advice("look into the log of `mpbond bluetooth listen`")
        }
        _ => Finding::new(Verdict::Ok, format!("channels {channels} have a listener")),
    }
}

/// The channels at the device of a process that connects, after a connection on one of them.
pub(super) fn answers(device: DeviceAddress, tried: Result<u8, String>) -> Finding {
    match tried {
        Ok(channel) => Finding::new(
            Verdict::Ok,
            format!("{device} answers on channel {channel}"),
        ),
        Err(line) => {
            let failed = Finding::failed(&line);
            let detail = format!("{device}: {}", failed.detail);
            Finding { detail, ..failed }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    const PHONE: &str = "00:1A:7D:DA:71:13";

    #[derive(clap::Parser)]
    struct Options {
        #[command(flatten)]
        radio: RadioArgs,
    }

    fn radio(args: &[&str]) -> RadioArgs {
        Options::parse_from([&["check"], args].concat()).radio
    }

    fn adapters(up: [bool; 2]) -> Vec<Adapter> {
        let adapter = |(number, is_up)| Adapter {
            number,
            name: format!("hci{number}"),
            address: PHONE.parse().unwrap(),
            is_up,
        };
        (0..).zip(up).map(adapter).collect()
    }

    #[test]
    fn the_adapter_of_the_pipe_is_there_and_on() {
        let of = |up, args: &[&str]| adapter(&adapters(up), &radio(args));
        let on = of([false, true], &[]);
        assert_eq!(on.verdict, Verdict::Ok);
        assert_eq!(on.detail, format!("hci1 ({PHONE}) is on"));
        let off = of([false, true], &["--adapter", "hci0"]);
        assert_eq!(off.verdict, Verdict::Fail);
        assert_eq!(off.detail, "hci0 is switched off");
        let absent = of([true, true], &["--adapter", "hci7"]);
        assert_eq!(absent.detail, "there is no adapter hci7");
        let raw = of([true, true], &["--adapter", "\x1b[2J"]);
        assert_eq!(raw.detail, "there is no adapter \\u{1b}[2J");
        let none = of([false, false], &[]);
        assert_eq!(none.verdict, Verdict::Fail);
        assert!(none.advice.unwrap().contains("power on"));
        let none = adapter(&[], &radio(&[]));
        assert!(none.detail.contains("no Bluetooth adapter"), "{none:?}");
    }

    #[test]
    fn the_devices_of_the_pipe_are_paired_or_not() {
        let device: DeviceAddress = PHONE.parse().unwrap();
        let other: DeviceAddress = "00:1A:7D:DA:71:14".parse().unwrap();
        let known = |devices: &[DeviceAddress]| {
            let bond = |device: &DeviceAddress| Bond {
                device: *device,
                name: "phone".to_owned(),
            };
            Ok(devices.iter().map(bond).collect())
        };
        let verdicts = |devices: &[DeviceAddress], bonds: io::Result<Vec<Bond>>| {
            let findings = bonded(devices, Security::Encrypted, &bonds);
            findings.iter().map(|f| f.verdict).collect::<Vec<_>>()
        };
        assert_eq!(verdicts(&[device], known(&[device, other])), [Verdict::Ok]);
        let both = verdicts(&[device, other], known(&[other]));
        assert_eq!(both, [Verdict::Fail, Verdict::Ok]);
        // Without names, any device that is paired may connect.
        assert_eq!(verdicts(&[], known(&[device, other])), [Verdict::Ok; 2]);
        assert_eq!(verdicts(&[], known(&[])), [Verdict::Fail]);
        let denied = || Err(io::Error::from_raw_os_error(libc::EACCES));
        assert_eq!(verdicts(&[device], denied()), [Verdict::Skip]);
        let findings = bonded(&[device], Security::Any, &denied());
        assert_eq!(findings[0].verdict, Verdict::Warn);
        let missing = bonded(&[device], Security::Encrypted, &known(&[other])).remove(0);
        assert_eq!(
            missing.detail,
            format!("{PHONE} is not paired with this machine")
        );
        assert!(
            missing
                .advice
                .unwrap()
                .contains(&format!("bluetoothctl pair {PHONE}"))
        );
    }

    #[test]
    fn channels_are_found_here_or_at_the_device() {
        let channels: Channels = "22-24".parse().unwrap();
        let of = |taken: &[u8]| listens(channels, taken).verdict;
        assert_eq!(of(&[22, 23, 24]), Verdict::Ok);
        assert_eq!(of(&[24]), Verdict::Warn);
        assert_eq!(of(&[]), Verdict::Fail);
        let device = PHONE.parse().unwrap();
        let found = answers(device, Ok(23));
        assert_eq!(found.detail, format!("{PHONE} answers on channel 23"));
        let line = "the device refuses: are both devices paired?".to_owned();
        let refused = answers(device, Err(line));
        assert_eq!(refused.detail, format!("{PHONE}: the device refuses"));
        assert_eq!(refused.advice.as_deref(), Some("are both devices paired?"));
    }
}
