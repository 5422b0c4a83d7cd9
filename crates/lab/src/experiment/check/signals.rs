//! Checks of the signals of links that the primary sees, and of their thresholds.

use mpbond_units::duration_text;
use toml::Spanned;

use crate::error::Result;
use crate::experiment::file::Experiment;
use crate::experiment::place::Place;
use crate::experiment::scheme::Scheme;

/// Checks the strengths of a signal; the error is a sentence.
pub(super) fn strengths(
    signal: &[(duration_text::Text, f64)],
) -> std::result::Result<(), &'static str> {
    let are_numbers = signal.iter().all(|(_, dbm)| dbm.is_finite());
    match are_numbers && signal.is_sorted_by_key(|(at, _)| at.0) {
        true => Ok(()),
        false => Err("signal_dbm: times must be in order, and strengths numbers"),
    }
}

/// Checks the signals of links and settings, and thresholds of schemes.
pub(super) fn signals(e: &Experiment, place: &Place) -> Result<()> {
    let of_links = e.links.iter().map(|link| (&link.name, &link.signal_dbm));
    let of_settings = e.settings.iter().flat_map(|setting| &setting.links);
    let of_settings = of_settings.filter_map(|(name, set)| Some((name, set.signal_dbm.as_ref()?)));
    let all: Vec<_> = of_links
        .chain(of_settings)
        .filter(|(_, s)| !s.is_empty())
        .collect();
    for &(name, signal) in &all {
        let wrong = |why: &str| place.at(name, format!("link \"{}\": {why}", name.get_ref()));
        let link = e.links.iter().find(|link| link.name == *name);
        if !e.simulated || link.is_some_and(|link| link.bluetooth.is_some()) {
            return Err(wrong(
                "signal_dbm is only for a file with `simulated = true`, and not for Bluetooth, \
                 where it is in `bluetooth`",
            ));
        }
        strengths(signal).map_err(wrong)?;
    }
    for scheme in &e.schemes {
        for name in scheme.weak_below.keys() {
            if let Some(why) = threshold(e, scheme, name, &all) {
                let scheme = scheme.name.get_ref();
                return Err(place.at(name, format!("scheme \"{scheme}\", weak_below: {why}")));
            }
        }
    }
    Ok(())
}

/// A link and its signal.
type Seen<'e> = (&'e Spanned<String>, &'e Vec<(duration_text::Text, f64)>);

/// The error in a threshold, if there is one.
fn threshold(
    e: &Experiment,
    scheme: &Scheme,
    name: &Spanned<String>,
    all: &[Seen<'_>],
) -> Option<&'static str> {
    let is_used = scheme.direct_links(e).any(|link| link.name == *name);
    let has_signal = all.iter().any(|&(of, _)| of == name);
    if scheme.standby.is_empty() {
        return Some("no link is on `standby`");
    }
    (!is_used || !has_signal).then_some("not a direct link of the scheme with a signal_dbm")
}
