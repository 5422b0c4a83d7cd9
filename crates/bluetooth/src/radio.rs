//! Options of all connections of RFCOMM, and the state of the adapters at a start.

use clap::Args;
use mpbond_command::Failure;
use tracing::warn;

use crate::address::DeviceAddress;
use crate::channels::Channels;
use crate::reason::reason;
use crate::sys::hci::{Adapter, adapters};
use crate::sys::rfcomm::{self, Security};

/// Options of connections.
#[derive(Debug, Args)]
pub(crate) struct RadioArgs {
    /// Server channels of RFCOMM, the same at both devices. Each carries one connection at a time
    /// between two devices; a pipe has three, and some while it is dialled again.
    #[arg(long, value_name = "FIRST-LAST", default_value = "22-29")]
    pub channels: Channels,
    /// Server channel of pairings (`mpbond pair`), the same at both devices. The helper's device
    /// listens on it only while somebody pairs there.
    #[arg(long, value_name = "CHANNEL", default_value_t = 21,
        value_parser = clap::value_parser!(u8).range(1..=30))]
    pub pairing_channel: u8,
    /// Adapter to use, such as hci1; otherwise any.
    #[arg(long, value_name = "NAME")]
    pub adapter: Option<String>,
    /// Accept links without encryption, and devices that are not paired. The daemons' TLS protects
    /// the bytes all the same; any device in range can then connect, and be refused by the daemon.
    #[arg(long)]
    unencrypted: bool,
}

impl RadioArgs {
    /// Protection of links.
    pub fn security(&self) -> Security {
        if self.unencrypted {
            Security::Any
        } else {
            Security::Encrypted
        }
    }

    /// Checks that the kernel has RFCOMM, and finds the adapter; returns its address. An adapter
    /// that is missing or off is only told: it may come later.
    ///
    /// # Errors
    /// Without Bluetooth in the kernel, where a named adapter is missing, or a channel has two
    /// purposes.
    pub fn start(&self) -> Result<DeviceAddress, Failure> {
        if self.channels.iter().any(|c| c == self.pairing_channel) {
            return Err(Failure::input(format_args!(
                "channel {} is one of --channels {}: give another --pairing-channel at both devices",
                self.pairing_channel, self.channels
            )));
        }
        rfcomm::socket(self.security()).map_err(|e| Failure::run(reason(&e)))?;
        let adapters = adapters().map_err(|e| Failure::run(reason(&e)))?;
        let Some(name) = &self.adapter else {
            if !adapters.iter().any(|adapter| adapter.is_up) {
                warn!("{}", no_adapter(&adapters));
            }
            return Ok(DeviceAddress::ANY);
        };
        let Some(adapter) = adapters.iter().find(|a| a.name == *name) else {
            let names: Vec<_> = adapters.iter().map(|a| a.name.as_str()).collect();
            return Err(Failure::run(format_args!(
                "there is no adapter {name} (adapters: {}); give another --adapter, or none",
                match names.join(", ") {
                    none if none.is_empty() => "none".to_owned(),
                    some => some,
                }
            )));
        };
        if !adapter.is_up {
            warn!("{name} is switched off: try `bluetoothctl power on`, and `rfkill list`");
        }
        Ok(adapter.address)
    }
}

/// The reason why none of these adapters can be used.
pub(crate) fn no_adapter(adapters: &[Adapter]) -> String {
    match adapters {
        [] => "this machine has no Bluetooth adapter, or its driver is missing: look at `dmesg`, \
               and at `rfkill list`"
            .to_owned(),
        some => {
            let names: Vec<_> = some.iter().map(|a| a.name.as_str()).collect();
            format!(
                "no Bluetooth adapter is switched on ({} off): try `bluetoothctl power on`, and \
                 `rfkill list`",
                names.join(", ")
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_adapter_and_with_one_that_is_off_the_remedies_differ() {
        assert!(no_adapter(&[]).contains("driver"));
        let off = Adapter {
            number: 0,
            name: "hci0".to_owned(),
            address: "00:1A:7D:DA:71:13".parse().unwrap(),
            is_up: false,
        };
        let line = no_adapter(&[off]);
        assert!(
            line.contains("(hci0 off)") && line.contains("power on"),
            "{line}"
        );
    }
}
