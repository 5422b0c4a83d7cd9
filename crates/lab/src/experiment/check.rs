//! What must hold beyond the shape of an experiment file.

use std::collections::HashSet;
use std::ops::Range;

use mpbond_radio::Profiles;
use mpbond_sim::link::RateSpec;
use toml::Spanned;

use super::{Carrier, Experiment, Interception, Link, Role};
use crate::error::{Error, Result};

/// Upper bounds that keep a wrong file from eating the machine.
const MAX_HOSTS: usize = 16;
const MAX_LINKS: usize = 32;
const MAX_BYTES: u64 = 4 << 30;
const MAX_REPETITIONS: u32 = 10_000;

/// The text of a file, for naming lines of it.
pub(super) struct Place<'a> {
    pub file: &'a str,
    pub text: &'a str,
}

impl Place<'_> {
    /// An error at `span`, as one line.
    pub fn error(&self, span: Option<Range<usize>>, message: &str) -> Error {
        let message = message.trim().replace('\n', "; ");
        let Some(before) = span.and_then(|s| self.text.get(..s.start)) else {
            return Error::Experiment(format!("{}: {message}", self.file));
        };
        let line = before.matches('\n').count() + 1;
        Error::Experiment(format!("{}:{line}: {message}", self.file))
    }

    fn at<T>(&self, what: &Spanned<T>, message: String) -> Error {
        self.error(Some(what.span()), &message)
    }
}

pub(super) fn check(e: &Experiment, place: &Place) -> Result<()> {
    let whole = |message: &str| Err(place.error(None, message));
    if !is_name(&e.name, 60) {
        return whole("name: letters, digits and dashes only, 1 to 60 of them");
    }
    if !(1..=MAX_REPETITIONS).contains(&e.repetitions) {
        return whole("repetitions: from 1 to 10000");
    }
    if e.hosts.len() > MAX_HOSTS || e.links.len() > MAX_LINKS {
        return whole("at most 16 hosts and 32 links");
    }
    if e.schemes.is_empty() || e.workloads.is_empty() {
        return whole("at least one [[scheme]] and one [[workload]] are needed");
    }
    hosts(e, place)?;
    media(e, place)?;
    links(e, place)?;
    schemes(e, place)?;
    workloads(e, place)?;
    asserts(e, place)
}

fn hosts(e: &Experiment, place: &Place) -> Result<()> {
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
                &format!("{count} hosts have the role {name}; exactly one is needed"),
            ));
        }
    }
    Ok(())
}

fn media(e: &Experiment, place: &Place) -> Result<()> {
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
            let message = format!("medium \"{name}\": a rate of 0 carries nothing");
            return Err(place.at(&medium.name, message));
        }
    }
    Ok(())
}

/// What a link shares and which radios it passes.
fn sharing(e: &Experiment, place: &Place, link: &Link, profiles: &Profiles) -> Result<()> {
    let name = link.name.get_ref();
    if link.down.is_none() {
        let named = [&link.medium, &link.radio, &link.far_radio];
        if let Some(named) = named.into_iter().flatten().next() {
            let message = format!("link \"{name}\": a plain wire has no medium and no radio");
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
    // A packet is in the air for its bytes over the link's rate.
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

fn links(e: &Experiment, place: &Place) -> Result<()> {
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
        let shaped = link.down.is_some();
        if shaped != link.up.is_some() {
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
        if !shaped && (!link.changes.is_empty() || loses || !link.delay.is_zero()) {
            return wrong("a plain wire has no delay, loss or changes: give it rates".into());
        }
        sharing(e, place, link, &profiles)?;
        let losses = link
            .changes
            .iter()
            .filter_map(|c| c.loss)
            .chain([link.loss]);
        if losses.into_iter().any(|p| !(0.0..=1.0).contains(&p)) {
            return wrong("loss is a probability from 0 to 1".into());
        }
        if !link.changes.is_sorted_by_key(|c| c.at) {
            return wrong("the times of its changes must not fall".into());
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
        let pipes = e.links_between(Role::Primary, Role::Helper);
        let ups = e.links_between(Role::Helper, Role::Proxy);
        if pipes.filter(|l| l.to.get_ref() == name).count() != 1
            || ups.filter(|l| l.from.get_ref() == name).count() != 1
        {
            return Err(place.at(
                &helper.name,
                format!("helper \"{name}\" needs one link from the primary and one to the proxy"),
            ));
        }
    }
    Ok(())
}

fn schemes(e: &Experiment, place: &Place) -> Result<()> {
    unique(place, "scheme", e.schemes.iter().map(|s| &s.name))?;
    let most = 1 + e.helpers().count();
    for scheme in &e.schemes {
        let name = scheme.name.get_ref();
        let wrong =
            |message: String| Err(place.at(&scheme.name, format!("scheme \"{name}\": {message}")));
        if !(1..=most).contains(&scheme.devices) {
            return wrong(format!(
                "devices: from 1 to {most} (the primary and its helpers)"
            ));
        }
        let intercepted = scheme.interception != Interception::None;
        match scheme.scheme {
            Carrier::Single if intercepted || scheme.devices != 1 => {
                return wrong("`single` is one device without interception".into());
            }
            Carrier::Mpbond if !intercepted => {
                return wrong("interception: socks5, http or transparent".into());
            }
            _ => {}
        }
        if !is_name(&scheme.congestion, 15) {
            return wrong("congestion: the name of a kernel module such as \"cubic\"".into());
        }
        for path in scheme.paths.iter().flatten() {
            if !e.direct_links().any(|l| l.name == *path) {
                let known = e.direct_links().map(|l| &l.name);
                return Err(place.at(path, unknown("direct link", path, known)));
            }
        }
        for workload in scheme.workloads.iter().flatten() {
            if !e.workloads.iter().any(|w| w.name == *workload) {
                let known = e.workloads.iter().map(|w| &w.name);
                return Err(place.at(workload, unknown("workload", workload, known)));
            }
        }
        if scheme.paths.as_ref().is_some_and(Vec::is_empty) && scheme.devices == 1 {
            return wrong("no path and no helper".into());
        }
    }
    Ok(())
}

fn workloads(e: &Experiment, place: &Place) -> Result<()> {
    unique(place, "workload", e.workloads.iter().map(|w| &w.name))?;
    for workload in &e.workloads {
        let name = workload.name.get_ref();
        if !(1..=MAX_BYTES).contains(&workload.bytes.0) {
            return Err(place.at(
                &workload.name,
                format!("workload \"{name}\": bytes: from 1 B to 4 GiB"),
            ));
        }
        for fault in &workload.faults {
            match (&fault.kill, fault.link()) {
                (Some(host), None) => {
                    if !matches!(e.role_of(host.get_ref()), Some(Role::Helper | Role::Proxy)) {
                        let may = e
                            .hosts
                            .iter()
                            .filter(|h| matches!(h.role, Role::Helper | Role::Proxy))
                            .map(|h| &h.name);
                        return Err(place.at(host, unknown("helper or proxy", host, may)));
                    }
                }
                (None, Some(link))
                    if fault.blackhole.is_none() || fault.down_with_error.is_none() =>
                {
                    let shaped = || e.links.iter().filter(|l| l.down.is_some()).map(|l| &l.name);
                    if !shaped().any(|l| l == link) {
                        return Err(place.at(link, unknown("link with rates", link, shaped())));
                    }
                }
                _ => {
                    return Err(place.at(
                        &workload.name,
                        format!(
                            "workload \"{name}\": a fault has either `kill = \"HOST\"`, `blackhole = \"LINK\"` or `down_with_error = \"LINK\"`"
                        ),
                    ));
                }
            }
        }
    }
    Ok(())
}

fn asserts(e: &Experiment, place: &Place) -> Result<()> {
    for assert in &e.asserts {
        for scheme in [&assert.scheme, &assert.not_slower_than]
            .into_iter()
            .flatten()
        {
            if !e.schemes.iter().any(|s| s.name == *scheme) {
                return Err(place.at(
                    scheme,
                    unknown("scheme", scheme, e.schemes.iter().map(|s| &s.name)),
                ));
            }
        }
        if let Some(w) = &assert.workload
            && !e.workloads.iter().any(|x| x.name == *w)
        {
            return Err(place.at(
                w,
                unknown("workload", w, e.workloads.iter().map(|w| &w.name)),
            ));
        }
    }
    Ok(())
}

fn unique<'a>(
    place: &Place,
    kind: &str,
    names: impl Iterator<Item = &'a Spanned<String>>,
) -> Result<()> {
    let mut seen = HashSet::new();
    for name in names {
        if !seen.insert(name.get_ref()) {
            return Err(place.at(
                name,
                format!("{kind} \"{}\" stands there twice", name.get_ref()),
            ));
        }
    }
    Ok(())
}

fn unknown<'a>(
    kind: &str,
    got: &Spanned<String>,
    allowed: impl Iterator<Item = &'a Spanned<String>>,
) -> String {
    let allowed: Vec<_> = allowed.map(|n| n.get_ref().as_str()).collect();
    format!(
        "\"{}\" is no {kind} of this experiment: {}",
        got.get_ref(),
        allowed.join(", ")
    )
}

fn is_name(text: &str, longest: usize) -> bool {
    (1..=longest).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}
