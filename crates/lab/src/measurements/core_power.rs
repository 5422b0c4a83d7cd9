//! Power of one core of a phone's processor at full use.

use mpbond_radio::Profiles;
use mpbond_radio::machine::CoreSample;

/// Frequencies may differ from those of a profile by 1 %, as they are rounded.
const ROUNDED: f64 = 0.01;

/// Power of the first core of a shipped profile at full use and a frequency in MHz, without that of
/// the idle processor, in mW.
///
/// # Errors
/// One line: there is no such profile, or its processor has no such frequency.
pub(super) fn full_mw(profile: &str, mhz: f64) -> Result<f64, String> {
    let profiles = Profiles::shipped().map_err(|e| e.to_string())?;
    let cpu = profiles.cpu(profile).map_err(|e| e.to_string())?;
    let frequencies = cpu.clusters.first().map(|cluster| cluster.busy.rows());
    if let Some([(lowest, _), ..]) = frequencies
        && let Some([.., (highest, _)]) = frequencies
        && !(lowest * (1.0 - ROUNDED)..=highest * (1.0 + ROUNDED)).contains(&mhz)
    {
        return Err(format!(
            "mhz {mhz}: the processor of {profile} has {lowest} to {highest} MHz"
        ));
    }
    let core = |utilisation| CoreSample {
        core: 0,
        mhz: Some(mhz),
        utilisation,
    };
    Ok(cpu.power_mw(&[core(1.0)]) - cpu.power_mw(&[core(0.0)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_frequencies_of_the_profile() {
        // 200 mA at 3.8 V; the profile has 200 to 1600 MHz.
        assert!((full_mw("cpu-galaxy-s3", 1400.0).unwrap() - 760.0).abs() < 1e-6);
        assert!(full_mw("cpu-galaxy-s3", 1601.0).is_ok());
        for mhz in [f64::NAN, f64::INFINITY, -1400.0, 0.0, 190.0, 1700.0] {
            let why = full_mw("cpu-galaxy-s3", mhz).unwrap_err();
            assert!(why.ends_with("has 200 to 1600 MHz"), "{why}");
        }
        assert!(
            full_mw("lte-2012", 1400.0)
                .unwrap_err()
                .contains("lte-2012")
        );
    }
}
