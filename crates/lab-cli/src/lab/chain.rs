//! `mpbond lab chain`: hosts in a row.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use mpbond_command::Failure;
use mpbond_lab::player::Logs;
use mpbond_lab::{ChainOptions, Hop, HopLink, chain};
use mpbond_units::duration_text;

/// Run programs on hosts in a row, with an emulated link between neighbours.
///
/// Host 0 runs the program. The exit code is the program's, or 4 where that is 0 and the machine
/// was too busy for the links. MPBOND_HOST_n has the address of host n. A hop is
/// NAME:RATE:DELAY[:RADIO][:hold=TIME[/BYTES]] or NAME:wire, a cable without delay. Rate and delay
/// are the same in both directions. RADIO is a profile of a radio (or bus) that holds packets while
/// it wakes up. With hold=5ms, packets that the nearer host sends wait for others until the first
/// has waited for 5 ms, or BYTES (65535) wait, as in WiFi's frame aggregation.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond lab chain --hop 'bus:200 Mbit/s:0ms:bus-broadcom' --hop 'air:54 Mbit/s:42.5ms' \\
    --pcap taps --at '2=mpbond probe-server --listen 0.0.0.0:80' \\
    -- sh -c 'sleep 0.5; mpbond probe $MPBOND_HOST_2:80 --method http -i 200ms'")]
pub(crate) struct ChainArgs {
    /// A link to the next host; repeated for each link.
    #[arg(long = "hop", value_name = "HOP", required = true, value_parser = hop)]
    hops: Vec<Hop>,
    /// HOST=COMMAND: another command, on this host, until the program ends; may be repeated.
    #[arg(long = "at", value_name = "HOST=COMMAND", value_parser = beside)]
    beside: Vec<(usize, String)>,
    /// Log every packet there, as CSV (docs/packet-log.md).
    #[arg(long, value_name = "FILE")]
    packet_log: Option<PathBuf>,
    /// Capture what each link's nearer host sends and receives: NAME.pcap in this folder.
    #[arg(long, value_name = "FOLDER")]
    pcap: Option<PathBuf>,
    /// Capture at every device, with the kernel's timestamps in Unix time: NAME.pcap at a hop's
    /// nearer host and NAME-b.pcap at the further one, in this folder.
    #[arg(long, value_name = "FOLDER")]
    taps: Option<PathBuf>,
    /// The program and its arguments; $SHELL when none is given.
    #[arg(last = true, value_name = "CMD")]
    program: Vec<OsString>,
}

impl ChainArgs {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let options = ChainOptions {
            hops: self.hops,
            beside: self.beside,
            logs: Logs {
                packets: self.packet_log,
                pcap: self.pcap,
            },
            taps: self.taps,
            program: self.program,
        };
        let code = chain(&options).map_err(|e| Failure::with_code(&e, e.exit_code()))?;
        Ok(ExitCode::from(code))
    }
}

fn hop(text: &str) -> Result<Hop, String> {
    let mut parts: Vec<&str> = text.split(':').map(str::trim).collect();
    let held = parts.last().and_then(|last| last.strip_prefix("hold="));
    let held = held.map(hold).transpose()?;
    if held.is_some() {
        parts.pop();
    }
    let played = |rate: &str, delay: &str, radio: Option<&str>| {
        Ok::<_, String>(HopLink::Played {
            rate: rate.parse().map_err(|e| format!("{e}"))?,
            delay: duration_text::parse(delay).map_err(|e| e.to_string())?,
            radio: radio.map(str::to_owned),
            hold: held,
        })
    };
    let (name, link) = match parts.as_slice() {
        [name, "wire"] if held.is_none() => (name, HopLink::Wire),
        [name, rate, delay] => (name, played(rate, delay, None)?),
        [name, rate, delay, radio] => (name, played(rate, delay, Some(radio))?),
        _ => {
            return Err(
                "a hop is NAME:RATE:DELAY[:RADIO][:hold=TIME[/BYTES]] or NAME:wire".to_owned(),
            );
        }
    };
    Ok(Hop {
        name: (*name).to_owned(),
        link,
    })
}

/// Maximum length of an A-MPDU of 802.11n.
const A_MPDU_BYTES: u64 = 65_535;

fn hold(text: &str) -> Result<(Duration, u64), String> {
    let (time, bytes) = match text.split_once('/') {
        Some((time, bytes)) => {
            let bytes: Option<u64> = bytes.trim().parse().ok().filter(|bytes| *bytes > 0);
            (time, bytes.ok_or("hold: BYTES is 1 or more")?)
        }
        None => (text, A_MPDU_BYTES),
    };
    let time = duration_text::parse(time).map_err(|e| e.to_string())?;
    if time.is_zero() || time > Duration::from_secs(1) {
        return Err("hold: a time above 0, of 1 s at most".to_owned());
    }
    Ok((time, bytes))
}

fn beside(text: &str) -> Result<(usize, String), String> {
    let (host, command) = text.split_once('=').ok_or("not HOST=COMMAND")?;
    let host = host
        .parse()
        .map_err(|_| format!("{host}: not the number of a host"))?;
    Ok((host, command.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hops_are_read() {
        let h = hop("bus:200 Mbit/s:2.5ms:bus-broadcom").unwrap();
        assert_eq!(h.name, "bus");
        assert!(matches!(
            h.link,
            HopLink::Played { delay, radio: Some(radio), .. }
                if delay.as_micros() == 2500 && radio == "bus-broadcom"
        ));
        let plain = hop("air:54 Mbit/s:0ms").unwrap().link;
        assert!(matches!(plain, HopLink::Played { radio: None, .. }));
        assert!(matches!(hop("eth : wire").unwrap().link, HopLink::Wire));
        for (text, time_ms, bytes) in [
            ("bus:200 Mbit/s:0ms:hold=5ms", 5, 65_535),
            ("bus:8 Mbit/s:0ms:bus-broadcom:hold=2ms/3839", 2, 3839),
        ] {
            let held = hop(text).unwrap().link;
            assert!(
                matches!(
                    held,
                    HopLink::Played { hold: Some((time, limit)), .. }
                        if time.as_millis() == time_ms && limit == bytes
                ),
                "{held:?}"
            );
        }
        for bad in [
            "",
            "a",
            "a:b",
            "a:1 Mbit/s:x",
            "a:fast:1ms",
            "a:1:1:1:1",
            "a:wire:hold=5ms",
            "a:1 Mbit/s:1ms:hold=0ms",
            "a:1 Mbit/s:1ms:hold=5ms/0",
            "a:1 Mbit/s:1ms:hold=5ms/x",
            "a:1 Mbit/s:1ms:hold=2s",
        ] {
            assert!(hop(bad).is_err(), "{bad}");
        }
        assert_eq!(beside("2=a b=c").unwrap(), (2, "a b=c".to_owned()));
        assert!(beside("x=a").is_err() && beside("a").is_err());
    }
}
