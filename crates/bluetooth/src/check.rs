//! `mpbond bluetooth check`.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use mpbond_command::{Failure, print};

use crate::address::DeviceAddress;
use crate::bonds::{self, Bond};
use crate::channels::Channels;
use crate::radio::no_adapter;
use crate::reason::reason;
use crate::sys::hci::{Adapter, adapters};
use crate::sys::rfcomm::{self, Security};

/// Show adapters, channels and bonded devices, and what prevents pipes over Bluetooth.
///
/// Bonded devices are read from BlueZ's files, which root alone may read.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  sudo mpbond bluetooth check

Exit codes: 0 an adapter is switched on, 1 not so.")]
pub(crate) struct CheckArgs {
    /// Server channels of the pipes.
    #[arg(long, value_name = "FIRST-LAST", default_value = "22-29")]
    channels: Channels,
}

impl CheckArgs {
    pub fn run(self) -> Result<ExitCode, Failure> {
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
