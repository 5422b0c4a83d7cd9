//! `mpbond energy`: energy of captures and logs, in joules.

use std::fs::File;
use std::io::{BufReader, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use mpbond_capture::energy::{EnergyOptions, Input, LinkUse, background_mw, run};
use mpbond_radio::{EnergyReport, Profiles};

/// Output format of a report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Form {
    /// Aligned columns.
    #[default]
    Table,
    /// One line of JSON.
    Json,
    /// Power over time: one line per time bin and state.
    Csv,
}

/// Account the energy of captures (pcap, pcapng), packet logs and processor logs.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    mpbond energy download.pcap --profile lte-2012 --svg power.svg\n  \
    mpbond energy wlan0.pcapng cpu.csv --profile pixel-2\n  \
    mpbond energy wlan0.pcapng cpu.csv --profile galaxy-s3 --background idle.csv\n  \
    mpbond energy packets.csv --profile pixel-2 --use ps=primary.cellular \\\n    \
    --use hs=helper.cellular --use pipe=primary.wifi --use pipe=helper.wifi:reversed \\\n    \
    --access-point helper")]
pub(crate) struct EnergyArgs {
    /// Files to account; their format is recognized by their contents.
    #[arg(required_unless_present = "list_profiles", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Profile of a radio or a device: its name, or a TOML file.
    #[arg(long, required_unless_present = "list_profiles")]
    profile: Option<String>,
    /// Load more profiles, which other options can name.
    #[arg(long, value_name = "FILE")]
    load: Vec<PathBuf>,
    /// Interface of the device's profile that the captures are of: cellular, wifi, bluetooth.
    #[arg(long, value_name = "KIND")]
    interface: Option<String>,
    /// The device's own address; guessed when not given.
    #[arg(long, value_name = "ADDRESS")]
    local: Vec<IpAddr>,
    /// Interface at an end of a packet log's link: LINK=DEVICE.INTERFACE, with :reversed at the end
    /// that sends in the direction called down.
    #[arg(long = "use", value_name = "LINK=DEVICE.INTERFACE")]
    uses: Vec<LinkUse>,
    /// Profile of one device, where it differs from --profile.
    #[arg(long, value_name = "DEVICE=PROFILE", value_parser = pair)]
    device: Vec<(String, String)>,
    /// Device that is an access point all the time.
    #[arg(long, value_name = "DEVICE")]
    access_point: Vec<String>,
    /// Device of a processor log.
    #[arg(long, value_name = "FILE=DEVICE", value_parser = pair)]
    cpu_of: Vec<(String, String)>,
    /// Processor log of the idle device: its mean power is subtracted, instead of the profile's
    /// background.
    #[arg(long, value_name = "FILE[=DEVICE]")]
    background: Vec<String>,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
    /// The same as --format json.
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Write a picture of power over time.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// List the known profiles and exit.
    #[arg(long)]
    list_profiles: bool,
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() && !value.is_empty() => {
            Ok((key.to_owned(), value.to_owned()))
        }
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

/// Runs the command. Exit code 1 after a report of incomplete input.
///
/// # Errors
/// One line that names the file, place, profile or option at fault.
pub(crate) fn energy(arguments: &EnergyArgs) -> Result<ExitCode> {
    let mut profiles = Profiles::shipped()?;
    for path in &arguments.load {
        load(path, &mut profiles)?;
    }
    if arguments.list_profiles {
        for kind in ["device", "radio", "cpu", "coexistence"] {
            print(&format!("{kind}: {}\n", profiles.names(kind).join(", ")))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let profile = match arguments.profile.as_deref() {
        Some(file) if file.ends_with(".toml") => load(Path::new(file), &mut profiles)?,
        Some(name) => name.to_owned(),
        None => bail!("--profile is required"),
    };
    let mut options = EnergyOptions {
        profile,
        device_profiles: arguments.device.clone(),
        interface: arguments.interface.clone(),
        local: arguments.local.clone(),
        uses: arguments.uses.clone(),
        access_points: arguments.access_point.clone(),
        cpu_devices: arguments.cpu_of.clone(),
        backgrounds_mw: Vec::new(),
    };
    for background in &arguments.background {
        let (file, device) = match background.rsplit_once('=') {
            Some(parts) if !Path::new(background).exists() => (parts.0, Some(parts.1)),
            _ => (background.as_str(), None),
        };
        let mw = background_mw(input(Path::new(file))?, device, &options, &profiles)?;
        let device = device.map(str::to_owned);
        options.backgrounds_mw.push((device, mw));
    }
    let mut inputs = Vec::new();
    for path in &arguments.files {
        inputs.push(input(path)?);
    }
    let report = run(inputs, &options, &profiles)?;
    if let Some(path) = &arguments.svg {
        let picture = report.to_svg(&format!("Power over time, profile {}", options.profile));
        std::fs::write(path, picture)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    print(&shown(&report, arguments)?)?;
    if report.incomplete.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    for reason in &report.incomplete {
        mpbond_command::note!("mpbond energy: incomplete: {reason}");
    }
    Ok(ExitCode::from(1))
}

fn input(path: &Path) -> Result<Input<BufReader<File>>> {
    let name = path.display().to_string();
    let from = File::open(path).with_context(|| name.clone())?;
    Ok(Input {
        name,
        from: BufReader::new(from),
    })
}

fn load(path: &Path, profiles: &mut Profiles) -> Result<String> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(|| name.clone())?;
    Ok(profiles.load(&name, &text)?)
}

fn shown(report: &EnergyReport, arguments: &EnergyArgs) -> Result<String> {
    Ok(match arguments.format {
        _ if arguments.json => report.to_json()? + "\n",
        Form::Json => report.to_json()? + "\n",
        Form::Table => report.to_table(),
        Form::Csv => report.to_csv(),
    })
}

/// Prints; a closed pipe ends the output without an error.
fn print(text: &str) -> Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("standard output"),
    }
}
