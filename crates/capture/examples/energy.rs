//! Accounts captures with one profile: `energy PROFILE INTERFACE SVG FILE…`.
//!
//! Prints the table and writes the picture. INTERFACE may be `-`.

use std::error::Error;
use std::fs::File;
use std::io::BufReader;

use mpbond_capture::energy::{EnergyOptions, Input, run};
use mpbond_radio::Profiles;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [profile, interface, svg, files @ ..] = arguments.as_slice() else {
        return Err("usage: energy PROFILE INTERFACE SVG FILE…".into());
    };
    let mut options = EnergyOptions::with_profile(profile);
    options.interface = (interface != "-").then(|| interface.clone());
    let mut inputs = Vec::new();
    for name in files {
        let from = File::open(name).map_err(|e| format!("{name}: {e}"))?;
        inputs.push(Input {
            name: name.clone(),
            from: BufReader::new(from),
        });
    }
    let report = run(inputs, &options, &Profiles::shipped()?)?;
    print!("{}", report.to_table());
    std::fs::write(svg, report.to_svg(&format!("Power with {profile}")))?;
    Ok(())
}
