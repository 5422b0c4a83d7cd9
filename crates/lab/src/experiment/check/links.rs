//! Checks of hosts, media, links and their changes.

use std::time::Duration;

use mpbond_radio::Profiles;
use mpbond_sim::link::RateSpec;

use super::bluetooth;
use super::names::{is_name, unique, unknown};
use crate::error::Result;
use crate::experiment::file::Experiment;
use crate::experiment::link::{Duplex, Link, MediumSpec, bluetooth_radio};
use crate::experiment::place::Place;
use crate::experiment::scheme::{Carrier, Scheme};
use crate::experiment::terms::Role;

/// Maximum number of pipes to a helper, as in a primary's configuration.
const MAX_PIPES: usize = 4;

/// Longest holding time of frame aggregation.
const MAX_HOLD: Duration = Duration::from_secs(1);

pub(super) fn hosts(e: &Experiment, place: &Place) -> Result<()> {
    unique(place, "host", e.hosts.iter().map(|h| &h.name))?;
    for host in &e.hosts {
        let name = host.name.get_ref();
        if !is_name(name, 15) {
            return Err(place.at(
                &host.name,
                format!("host \"{name}\": letters, digits and dashes only, 1 to 15 of them"),
            ));
        }
        let needs = matches!(host.role, Role::Proxy | Role::Origin);
        if needs && host.address.is_none() {
            return Err(place.at(
                &host.name,
                format!(
                    "host \"{name}\": proxy and origin need an `address`, such as 198.51.100.1"
                ),
            ));
        }
    }
    for (role, name) in [
        (Role::Primary, "primary"),
        (Role::Proxy, "proxy"),
        (Role::Origin, "origin"),
    ] {
        let count = e.hosts.iter().filter(|h| h.role == role).count();
        if count != 1 {
            return Err(place.error(
                None,
                &format!("{count} hosts have the role {name}: exactly one is needed"),
            ));
        }
    }
    Ok(())
}

/// Largest retry limit that IEEE 802.11 can be configured with (dot11ShortRetryLimit).
const MAX_RETRIES: u32 = 255;
/// Much more than any WiFi frame needs, at the lowest rate and with the longest back-off.
const MAX_FRAME_OVERHEAD: Duration = Duration::from_millis(10);

pub(super) fn media(e: &Experiment, place: &Place) -> Result<()> {
    unique(place, "medium", e.media.iter().map(|m| &m.name))?;
    for medium in &e.media {
        let name = medium.name.get_ref();
        if !is_name(name, 15) {
            return Err(place.at(
                &medium.name,
                format!("medium \"{name}\": letters, digits and dashes only, 1 to 15 of them"),
            ));
        }
        if medium.rate.is_some_and(|rate| rate.bps() == 0) {
            let message = format!("medium \"{name}\": the rate must not be 0");
            return Err(place.at(&medium.name, message));
        }
        if medium.rate.is_some() && !medium.frame_overhead.is_zero() {
            let message = format!(
                "medium \"{name}\": a medium with a rate has no frame_overhead, which is of \
                 airtime"
            );
            return Err(place.at(&medium.name, message));
        }
        if medium.frame_overhead > MAX_FRAME_OVERHEAD {
            let message = format!("medium \"{name}\": frame_overhead is at most 10 ms");
            return Err(place.at(&medium.name, message));
        }
        if medium.rate.is_some() && medium.retries > 0 {
            let message = format!(
                "medium \"{name}\": a medium with a rate has no retries, which are of airtime"
            );
            return Err(place.at(&medium.name, message));
        }
        if medium.retries > MAX_RETRIES {
            let message = format!("medium \"{name}\": retries are at most {MAX_RETRIES}");
            return Err(place.at(&medium.name, message));
        }
    }
    antenna(e).map_err(|(medium, why)| {
        let name = medium.name.get_ref();
        place.at(&medium.name, format!("medium \"{name}\": {why}"))
    })
}

/// Checks the medium that has an antenna in common with Bluetooth; the error is a sentence about
/// it.
fn antenna(e: &Experiment) -> Result<(), (&MediumSpec, &'static str)> {
    let mut shared = e.media.iter().filter(|medium| medium.shares_antenna());
    let Some(medium) = shared.next() else {
        return Ok(());
    };
    let bluetooth: Vec<&Link> = e.links.iter().filter(|l| l.bluetooth.is_some()).collect();
    let is_near = |link: &Link| {
        let ends = [link.from.get_ref(), link.to.get_ref()];
        let has = |b: &&Link| ends.contains(&b.from.get_ref()) || ends.contains(&b.to.get_ref());
        bluetooth.iter().any(has)
    };
    let is_on_it = |link: &&Link| {
        link.medium
            .as_ref()
            .is_some_and(|m| m.get_ref() == medium.name.get_ref())
    };
    let has_others = |s: &Scheme| s.dual || s.users > 1;
    let why = if shared.next().is_some() {
        "a file has one medium of 2.4 GHz at most: a device has one antenna"
    } else if medium.duplex == Duplex::Full {
        "WiFi of 2.4 GHz has both directions on one medium"
    } else if bluetooth.len() > 1 {
        "beside WiFi of 2.4 GHz a file has one Bluetooth link at most"
    } else if !bluetooth.is_empty() && !e.links.iter().filter(is_on_it).all(is_near) {
        "each of its links has a host of the Bluetooth link: a device has one antenna"
    } else if e.schemes.iter().any(has_others) {
        "WiFi of 2.4 GHz is the band of one user's Bluetooth: no scheme has several users"
    } else {
        return Ok(());
    };
    Err((medium, why))
}

/// Checks the medium and the radios of a link.
fn sharing(e: &Experiment, place: &Place, link: &Link, profiles: &Profiles) -> Result<()> {
    let name = link.name.get_ref();
    if link.bluetooth.is_some() {
        if let Some(medium) = &link.medium {
            let message = format!("link \"{name}\": a Bluetooth link has no medium");
            return Err(place.at(medium, message));
        }
        let radios = link
            .bluetooth_radios()
            .map(|radio| bluetooth_radio(profiles, radio));
        let radios: Result<Vec<_>, String> = radios.into_iter().collect();
        let wrong = |why| place.at(&link.name, format!("link \"{name}\": {why}"));
        return radios.map(drop).map_err(wrong);
    }
    if link.down.is_none() {
        let named = [&link.medium, &link.radio, &link.far_radio];
        if let Some(named) = named.into_iter().flatten().next() {
            let message =
                format!("link \"{name}\": a plain wire can have neither medium nor radio");
            return Err(place.at(named, message));
        }
    }
    for radio in [&link.radio, &link.far_radio].into_iter().flatten() {
        profiles
            .radio(radio.get_ref())
            .map_err(|e| place.at(radio, format!("link \"{name}\": {e}")))?;
    }
    let Some(medium) = &link.medium else {
        return Ok(());
    };
    let Some(spec) = e.media.iter().find(|m| m.name == *medium) else {
        let known = e.media.iter().map(|m| &m.name);
        return Err(place.at(medium, unknown("medium", medium, known)));
    };
    // A packet occupies the medium for its size over the link's rate.
    if spec.rate.is_none() && link.rates().any(|r| matches!(r, RateSpec::Mahimahi { .. })) {
        return Err(place.at(
            medium,
            format!(
                "link \"{name}\": packet opportunities (`mahimahi`) do not say how long a packet \
                 takes a medium: give the medium a rate, or the link a profile"
            ),
        ));
    }
    Ok(())
}

pub(super) fn links(e: &Experiment, place: &Place) -> Result<()> {
    unique(place, "link", e.links.iter().map(|l| &l.name))?;
    let profiles = Profiles::shipped().map_err(|e| place.error(None, &e.to_string()))?;
    for link in &e.links {
        let name = link.name.get_ref();
        let wrong =
            |message: String| Err(place.at(&link.name, format!("link \"{name}\": {message}")));
        if !is_name(name, 15) || name == "lo" {
            return wrong("letters, digits and dashes only, 1 to 15 of them, not \"lo\"".into());
        }
        let mut roles = Vec::new();
        for end in [&link.from, &link.to] {
            match e.role_of(end.get_ref()) {
                Some(role) => roles.push(role),
                None => {
                    return Err(
                        place.at(end, unknown("host", end, e.hosts.iter().map(|h| &h.name)))
                    );
                }
            }
        }
        if let Some(spec) = &link.bluetooth {
            if let Err(why) = bluetooth::check(link, spec, &roles) {
                return wrong(why.into());
            }
            sharing(e, place, link, &profiles)?;
        }
        let shaped = link.is_played();
        if link.down.is_some() != link.up.is_some() {
            return wrong("give both `down` and `up`, or neither for a plain wire".into());
        }
        match roles.as_slice() {
            [Role::Primary, Role::Proxy | Role::Helper] | [Role::Helper, Role::Proxy] => {}
            [Role::Proxy, Role::Origin] if !shaped => {}
            _ => {
                return wrong(
                    "links go from primary to proxy, primary to helper, helper to proxy, \
                     or (without rates) proxy to origin"
                        .into(),
                );
            }
        }
        let loses = link.loss != 0.0 || !link.burst_loss.is_none();
        let delays = !link.delay.is_zero() || link.hold.is_some();
        if !shaped && (!link.changes.is_empty() || loses || delays) {
            return wrong("a plain wire can have no delay, loss or changes: give it rates".into());
        }
        if link
            .hold
            .is_some_and(|hold| hold.is_zero() || hold > MAX_HOLD)
        {
            return wrong("hold is a time above 0, of 1 s at most".into());
        }
        if link.hold_bytes.is_some() && link.hold.is_none() {
            return wrong("hold_bytes needs `hold`, the time for which packets wait".into());
        }
        if link.hold_bytes == Some(0) {
            return wrong("hold_bytes is 1 or more".into());
        }
        if link.bluetooth.is_none() {
            sharing(e, place, link, &profiles)?;
        }
        let losses = link
            .changes
            .iter()
            .filter_map(|c| c.loss)
            .chain([link.loss]);
        if losses.into_iter().any(|p| !(0.0..=1.0).contains(&p)) {
            return wrong("loss is a probability from 0 to 1".into());
        }
        if !link.changes.is_sorted_by_key(|c| c.at) {
            return wrong("its changes must be in the order of their times".into());
        }
    }
    if e.direct_links().next().is_none() {
        return Err(place.error(None, "no link goes from primary to proxy"));
    }
    if e.links_between(Role::Proxy, Role::Origin).count() != 1 {
        return Err(place.error(None, "exactly one link must go from proxy to origin"));
    }
    for helper in e.helpers() {
        let name = helper.name.get_ref();
        let pipes = e.pipes_of(name).count();
        let ups = e.links_between(Role::Helper, Role::Proxy);
        if pipes == 0 || ups.filter(|l| l.from.get_ref() == name).count() != 1 {
            return Err(place.at(
                &helper.name,
                format!(
                    "helper \"{name}\" needs a link from the primary, and one link to the proxy"
                ),
            ));
        }
        if pipes > MAX_PIPES {
            let message = format!("helper \"{name}\": at most {MAX_PIPES} links from the primary");
            return Err(place.at(&helper.name, message));
        }
        let takes_several = |s: &Scheme| match s.scheme {
            Carrier::Mpbond => s.split && !s.dual,
            _ => s.devices == 1,
        };
        if pipes > 1
            && let Some(scheme) = e.schemes.iter().find(|s| !takes_several(s))
        {
            let message = format!(
                "scheme \"{}\": of helpers with several links from the primary, such as \
                 \"{name}\", only `mpbond` with `split` and without `dual` makes use",
                scheme.name.get_ref()
            );
            return Err(place.at(&scheme.name, message));
        }
    }
    Ok(())
}

/// Checks that changes name a link in workloads, and none in links.
pub(super) fn changes(e: &Experiment, place: &Place) -> Result<()> {
    for link in e.links.iter().flat_map(|l| &l.changes) {
        if let Some(name) = &link.link {
            return Err(place.at(name, "a link's own changes take no `link`".into()));
        }
    }
    for workload in &e.workloads {
        for change in &workload.changes {
            let Some(name) = &change.link else {
                let message = "a workload's change needs a `link`".into();
                return Err(place.at(&workload.name, message));
            };
            let played = || e.links.iter().filter(|l| l.is_played());
            let Some(link) = played().find(|l| l.name == *name) else {
                let names = played().map(|l| &l.name);
                return Err(place.at(name, unknown("emulated link", name, names)));
            };
            if link.bluetooth.is_some() {
                bluetooth::check_change(change).map_err(|e| place.at(name, e.into()))?;
            }
            if change.loss.is_some_and(|p| !(0.0..=1.0).contains(&p)) {
                return Err(place.at(name, "loss is a probability from 0 to 1".into()));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::MediumSpec;
    use crate::experiment::Pipes;
    use crate::experiment::file::Experiment;
    use crate::experiment::tests::GOOD;

    #[test]
    fn retries_are_of_airtime_and_bounded() {
        let with = |more: &str| {
            let text = format!("{GOOD}[[medium]]\nname = \"m\"\n{more}");
            let e = Experiment::parse("t.toml", &text);
            e.map(|e| e.media[0].retries).map_err(|e| e.to_string())
        };
        assert_eq!(with(""), Ok(0));
        assert_eq!(with("retries = 255\n"), Ok(255));
        let refused = |more: &str| with(more).unwrap_err();
        assert!(refused("retries = 256\n").contains("medium \"m\": retries are at most 255"));
        let why = "a medium with a rate has no retries, which are of airtime";
        assert!(refused("rate = 6\nretries = 1\n").contains(why));
        assert!(refused("retries = -1\n").contains("invalid value: integer `-1`"));
    }

    #[test]
    fn one_medium_may_be_of_bluetooths_band() {
        let medium = |name: &str, more: &str| format!("[[medium]]\nname = \"{name}\"\n{more}");
        let with = |more: &str| {
            let e = Experiment::parse("t.toml", &format!("{GOOD}{more}"));
            let shares = |e: Experiment| -> Vec<bool> {
                let media = e.media.iter();
                media.map(MediumSpec::shares_antenna).collect()
            };
            e.map(shares).map_err(|e| e.to_string())
        };
        let near = "band = \"2.4GHz\"\n";
        let both = medium("m", near) + &medium("n", "band = \"5GHz\"\n");
        assert_eq!(with(&both), Ok(vec![true, false]));
        assert_eq!(with(&medium("m", "")), Ok(vec![false]));
        for (more, why) in [
            (
                medium("m", near) + &medium("n", near),
                "one medium of 2.4 GHz",
            ),
            (
                medium("m", &format!("{near}duplex = \"full\"\n")),
                "both directions on one medium",
            ),
            (medium("m", "band = \"6GHz\"\n"), "unknown variant `6GHz`"),
        ] {
            let error = with(&more).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        // The Bluetooth link is between the primary and the phone.
        let text = GOOD.replace("down = 5\nup = 5\n", "bluetooth = {}\n");
        for (link, is_apart) in [("ps", false), ("hs", false), ("core", true)] {
            let name = format!("name = \"{link}\"\n");
            let text = text.replace(&name, &format!("{name}medium = \"m\"\n"));
            let e = Experiment::parse("t.toml", &format!("{text}{}", medium("m", near)));
            let why = e.err().map(|e| e.to_string()).unwrap_or_default();
            let told = why.contains("has a host of the Bluetooth link");
            assert_eq!(told, is_apart, "{link}: {why}");
        }
        let text = GOOD.replace("devices = 2", "devices = 2\ndual = true");
        let text = format!("{text}{}", medium("m", near));
        let error = Experiment::parse("t.toml", &text).unwrap_err().to_string();
        assert!(error.contains("no scheme has several users"), "{error}");
    }

    #[test]
    fn a_helper_may_have_several_pipes_where_schemes_can_use_them() {
        let pipe = |n: usize| {
            format!("[[link]]\nname = \"pipe{n}\"\nfrom = \"primary\"\nto = \"phone\"\n[[scheme]]")
        };
        let with = |more: &str, scheme: &str| {
            let text = GOOD.replacen("[[scheme]]", more, 1);
            let text = text.replace("devices = 2\n", &format!("devices = 2\n{scheme}\n"));
            Experiment::parse("t.toml", &text)
        };
        let e = with(&pipe(2), "pipes = \"best\"").unwrap();
        let names: Vec<_> = e
            .pipes_of("phone")
            .map(|link| link.name.get_ref())
            .collect();
        assert_eq!(names, ["pipe", "pipe2"]);
        assert_eq!(e.schemes[0].pipes, Pipes::Best);
        for scheme in ["split = false", "dual = true"] {
            let error = with(&pipe(2), scheme).unwrap_err().to_string();
            assert!(error.contains("helpers with several links"), "{error}");
        }
        let five: String = (2..=5).map(pipe).collect::<Vec<_>>().concat();
        let five = five.replacen("[[scheme]]", "", 3);
        let error = with(&five, "").unwrap_err().to_string();
        assert!(error.contains("at most 4 links"), "{error}");
    }
}
