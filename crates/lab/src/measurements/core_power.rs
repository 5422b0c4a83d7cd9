//! Power of one core of a phone's processor at full use, and its use by networking at given rates.

use mpbond_radio::Profiles;
use mpbond_radio::machine::CoreSample;
use mpbond_units::BitRate;
use serde::Deserialize;

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

/// Use of one core by networking at a rate; an input, since this machine's processor is not that of
/// a phone.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UseAt {
    rate: BitRate,
    share: f64,
}

/// Checks that there are some, with possible shares, in ascending order of their rates.
pub(super) fn check_uses(uses: &[UseAt]) -> Result<(), String> {
    let share = |u: &UseAt| (0.0..=64.0).contains(&u.share);
    if uses.is_empty() || !uses.iter().all(share) {
        return Err("use: at least one, with shares from 0 to 64".to_owned());
    }
    if !uses.is_sorted_by(|a, b| a.rate < b.rate) {
        return Err("use: rates are in ascending order".to_owned());
    }
    Ok(())
}

/// Use at a rate, on a straight line between two rates, and constant beyond the first and last.
pub(super) fn use_at(uses: &[UseAt], rate: BitRate) -> f64 {
    let above = uses.partition_point(|u| u.rate <= rate);
    let low = above.checked_sub(1).and_then(|n| uses.get(n));
    match (low, uses.get(above)) {
        (Some(low), Some(high)) => {
            let span = high.rate.mbps() - low.rate.mbps();
            let part = (rate.mbps() - low.rate.mbps()) / span;
            low.share + (high.share - low.share) * part
        }
        (Some(only), None) | (None, Some(only)) => only.share,
        (None, None) => 0.0,
    }
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
