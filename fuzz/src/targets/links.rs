//! Targets for recorded links and radio profiles.

use std::num::NonZeroUsize;
use std::time::Duration;

use mpbond_radio::Profiles;
use mpbond_sim::trace::{
    Column, DistanceForm, MahimahiTrace, ProfileForm, RateProfile, RateUnit, parse_distances,
};

/// A Mahimahi trace: one packet opportunity per line.
pub fn mahimahi(octets: &[u8]) {
    let Some(text) = super::text(octets) else {
        return;
    };
    match MahimahiTrace::parse("x.trace", text) {
        Ok(trace) => {
            assert!(!trace.is_empty());
            assert!(trace.period() > Duration::ZERO);
            let _ = trace.mean_rate();
        }
        Err(e) => super::one_line(&e),
    }
}

/// A table of rates; the first octet selects its form.
pub fn rate_profile(octets: &[u8]) {
    let Some((form, table)) = octets.split_first() else {
        return;
    };
    let Some(text) = super::text(table) else {
        return;
    };
    let units = [
        RateUnit::BitPerSecond,
        RateUnit::KilobitPerSecond,
        RateUnit::MegabitPerSecond,
    ];
    let mut how = ProfileForm::new(units[usize::from(form & 3) % 3]);
    how.column = match form >> 2 & 3 {
        0 | 1 => None,
        2 => NonZeroUsize::new(usize::from(form >> 4)).map(Column::Number),
        _ => Some(Column::Name("rate".to_owned())),
    };
    how.every = (form & 0x80 != 0).then(|| Duration::from_millis(u64::from(form >> 4)));
    match RateProfile::parse("x.csv", text, &how) {
        Ok(profile) => {
            let rising = profile.steps().windows(2).all(|w| w[0].0 < w[1].0);
            assert!(rising, "instants must rise");
            let last = profile.steps().last().map(|s| s.0);
            assert!(last.is_some_and(|last| last < profile.length()));
            let _ = profile.mean_rate();
        }
        Err(e) => super::one_line(&e),
    }
}

/// A table of rates at distances.
pub fn distances(octets: &[u8]) {
    let Some(text) = super::text(octets) else {
        return;
    };
    let number = |n| NonZeroUsize::new(n).map(Column::Number);
    let (Some(distance), Some(rate)) = (number(1), number(2)) else {
        return;
    };
    let form = DistanceForm {
        distance,
        rate,
        condition: number(3),
        unit: RateUnit::MegabitPerSecond,
    };
    match parse_distances("x.csv", text, &form) {
        Ok(all) => {
            let _ = mpbond_sim::trace::by_distance(&all, 1.0);
        }
        Err(e) => super::one_line(&e),
    }
}

/// Profile of a radio, device or processor.
pub fn radio_profile(octets: &[u8]) {
    let Some(text) = super::text(octets) else {
        return;
    };
    let mut profiles = Profiles::default();
    match profiles.load("x.toml", text) {
        Ok(name) => use_it(&profiles, &name),
        Err(e) => super::one_line(&e),
    }
}

/// Checks that an accepted profile can be used.
fn use_it(profiles: &Profiles, name: &str) {
    use mpbond_radio::{Account, Packet, Placement, Radio};
    use mpbond_units::Timestamp;
    if let Ok(profile) = profiles.radio(name) {
        let mut radio = Radio::new(profile, Placement::Live);
        let mut sums = Account::default();
        let mut at = Timestamp::ZERO;
        for packet in [Packet::up(60), Packet::down(1500), Packet::up(1500)] {
            at = radio.packet(at, packet, &mut sums) + Duration::from_millis(7);
        }
        radio.finish(at, &mut sums);
        assert!(sums.summary().joules.is_finite(), "energy must be finite");
    }
}
