//! Energy report from captures and logs (`mpbond energy`).

mod accounts;
mod capture;
mod error;
mod local;
mod logs;
mod options;

use std::io::Read;

use mpbond_radio::{EnergyReport, Profiles};

pub use error::EnergyError;
pub use options::{EnergyOptions, LinkUse, ParseLinkUseError};

use crate::cpu_summary::cpu_mean_mw;
use crate::format::{Format, open};
use crate::reader::Reader;
use accounts::Accounts;
use options::DEVICE;

/// Input file.
pub struct Input<R> {
    /// Name used in reports and errors.
    pub name: String,
    /// Contents.
    pub from: R,
}

/// Reads all files and accounts their energy.
///
/// A capture belongs to one interface, or to one for each interface that the file names; packet
/// logs are accounted by link, processor logs by core. A damaged file counts up to the damage, and
/// the report lists it in `incomplete`.
///
/// # Errors
/// [`EnergyError`] when a profile or option is invalid, or a file has nothing to account.
pub fn run<R: Read>(
    inputs: Vec<Input<R>>,
    options: &EnergyOptions,
    profiles: &Profiles,
) -> Result<EnergyReport, EnergyError> {
    let mut accounts = Accounts::new(options, profiles)?;
    for input in inputs {
        let (source, format) = open(&input.name, input.from)?;
        let before = accounts.counted;
        let ended = match format {
            Format::Pcap | Format::Pcapng => {
                let mut reader = Reader::of(source, format)?;
                capture::account(&input.name, &mut reader, &mut accounts)
            }
            Format::Btsnoop | Format::PacketLogger => {
                let reason = "a Bluetooth log, which `mpbond energy` does not support: use `mpbond \
                              capture bt`";
                return Err(source.error(0, reason).into());
            }
            Format::PacketLog => logs::packet_log(source, &mut accounts),
            Format::CpuLog => logs::cpu_log(&input.name, source, &mut accounts),
        };
        match ended {
            Ok(()) => {}
            Err(EnergyError::Capture(e)) if accounts.counted > before => {
                accounts.incomplete.push(e.to_string());
            }
            Err(e) => return Err(e),
        }
        if accounts.counted == before {
            accounts
                .notes
                .push(format!("{}: nothing to account", input.name));
        }
    }
    accounts.check_backgrounds()?;
    Ok(accounts.finish())
}

/// Mean power of a device's processor over the log of the idle device, in mW, for
/// [`EnergyOptions::backgrounds_mw`]. Without a device, that of a log without one.
///
/// # Errors
/// When the log is cut, out of order or of another phone, or the device's profile has no processor.
pub fn background_mw<R: Read>(
    input: Input<R>,
    device: Option<&str>,
    options: &EnergyOptions,
    profiles: &Profiles,
) -> Result<f64, EnergyError> {
    let profile = options.profile_of(device.unwrap_or(DEVICE));
    let device = profiles.device(profile)?;
    let Some(cpu) = &device.parameters.cpu else {
        let why = format!("{}: profile \"{profile}\" has no processor", input.name);
        return Err(EnergyError::Options(why));
    };
    Ok(cpu_mean_mw(&input.name, input.from, profiles.cpu(cpu)?)?)
}
