//! What must hold beyond the shape of an experiment file.

use std::collections::HashSet;
use std::ops::Range;

use mpbond_radio::Profiles;
use mpbond_sim::link::RateSpec;
use toml::Spanned;

use super::{
    Carrier, Client, Connection, Direction, Experiment, Interception, Link, Role, Scheduler,
    Scheme, Start, paper,
};
use crate::error::{Error, Result};

/// Upper bounds that keep a wrong file from eating the machine.
const MAX_HOSTS: usize = 16;
const MAX_LINKS: usize = 32;
pub(super) const MAX_BYTES: u64 = 4 << 30;
const MAX_WORKLOADS: usize = 1000;
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

    pub(super) fn at<T>(&self, what: &Spanned<T>, message: String) -> Error {
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
    settings(e, place)?;
    changes(e, place)?;
    asserts(e, place)?;
    parameter(e, place)?;
    paper::check(e, place)
}

fn settings(e: &Experiment, place: &Place) -> Result<()> {
    unique(place, "setting", e.settings.iter().map(|s| &s.name))?;
    if e.settings.len() * e.workloads.len() > MAX_WORKLOADS {
        return Err(place.error(None, "at most 1000 workloads, counted in every setting"));
    }
    for setting in &e.settings {
        for (name, set) in &setting.links {
            let shaped = || e.links.iter().filter(|l| l.down.is_some()).map(|l| &l.name);
            if !shaped().any(|l| l == name) {
                return Err(place.at(name, unknown("link with rates", name, shaped())));
            }
            let changes = set.changes.iter().flatten();
            let losses = changes.clone().filter_map(|c| c.loss).chain(set.loss);
            let (setting, name_text) = (setting.name.get_ref(), name.get_ref());
            let wrong = |message: &str| {
                let text = format!("setting \"{setting}\", link \"{name_text}\": {message}");
                Err(place.at(name, text))
            };
            if losses.into_iter().any(|p| !(0.0..=1.0).contains(&p)) {
                return wrong("loss is a probability from 0 to 1");
            }
            if !changes.is_sorted_by_key(|c| c.at) {
                return wrong("the times of its changes must not fall");
            }
        }
    }
    Ok(())
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
            Carrier::Kibbutz | Carrier::Combine if intercepted => {
                return wrong("interception is mpbond's alone".into());
            }
            _ => {}
        }
        let fixed = scheme.scheduler == Scheduler::FixedRatio;
        if fixed
            != scheme
                .direct_share
                .is_some_and(|s| (0.0..=1.0).contains(&s))
        {
            return wrong(
                "direct_share: from 0 to 1, with the scheduler `fixed-ratio` and no other".into(),
            );
        }
        if let Some(message) = baseline(e, scheme) {
            return wrong(message.into());
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

/// What is wrong with a baseline, or with what only baselines and the lab's
/// own client know.
fn baseline(e: &Experiment, scheme: &Scheme) -> Option<&'static str> {
    const CHUNKS: std::ops::RangeInclusive<u64> = 1 << 10..=64 << 20;
    let carrier = scheme.scheme;
    let by_devices = matches!(carrier, Carrier::Kibbutz | Carrier::Combine);
    if by_devices && e.client != Client::Fetch {
        return Some("curl cannot do this: write `client = \"fetch\"` at the top of the file");
    }
    if carrier == Carrier::Kibbutz {
        match scheme.devices {
            1 if scheme.direct_links(e).count() < 2 => {
                return Some("`kibbutz` on one device needs two direct links");
            }
            1 | 2 => {}
            _ => return Some("`kibbutz` is two devices: one can be tethered to one other"),
        }
    }
    if scheme.dual {
        let possible = match carrier {
            Carrier::Mpbond => scheme.devices == 2 && scheme.split,
            Carrier::Single => e.helpers().next().is_some(),
            Carrier::Kibbutz | Carrier::Combine => false,
        };
        if !possible {
            return Some("dual is for `mpbond` on two devices, or for `single` beside a helper");
        }
        let fits = |w: &super::Workload| w.chunks.is_some() && w.faults.is_empty();
        if !e.workloads_of(scheme).all(fits) {
            return Some("dual is for `chunks` without faults: name its workloads");
        }
    }
    if !scheme.split {
        if carrier != Carrier::Mpbond || scheme.devices == 1 {
            return Some("split = false is for `mpbond` with a helper");
        }
        let kills_helper = |f: &super::Fault| {
            let killed = f.kill.as_ref().and_then(|host| e.role_of(host.get_ref()));
            killed == Some(Role::Helper)
        };
        if e.workloads_of(scheme)
            .any(|w| w.faults.iter().any(kills_helper))
        {
            return Some("no daemon runs on a helper that only forwards: name its workloads");
        }
    }
    if by_devices && scheme.direct_links(e).next().is_none() {
        return Some("a baseline needs a direct path");
    }
    if scheme.connection == Connection::Kept {
        if e.client != Client::Fetch {
            return Some(
                "curl keeps no connection: write `client = \"fetch\"` at the top of the file",
            );
        }
        if scheme.start == Start::Cold {
            return Some("a connection that is kept is not cold");
        }
    }
    match scheme.chunk {
        Some(_) if carrier != Carrier::Combine => return Some("chunk is for `combine` alone"),
        Some(chunk) if !CHUNKS.contains(&chunk.0) => return Some("chunk: from 1 KiB to 64 MiB"),
        _ => {}
    }
    let one_file = |w: &super::Workload| w.direction == Direction::Down && w.bytes.0 > 0;
    if carrier == Carrier::Combine && !e.workloads_of(scheme).all(one_file) {
        return Some("`combine` only downloads files: name its workloads");
    }
    let kills = |w: &super::Workload| w.faults.iter().any(|f| f.kill.is_some());
    if by_devices && e.workloads_of(scheme).any(kills) {
        return Some("no daemon runs that a fault could kill: name its workloads");
    }
    None
}

/// Changes of links name a link where they have to, and only there.
fn changes(e: &Experiment, place: &Place) -> Result<()> {
    for link in e.links.iter().flat_map(|l| &l.changes) {
        if let Some(name) = &link.link {
            return Err(place.at(name, "a link's own change names no link".into()));
        }
    }
    for workload in &e.workloads {
        for change in &workload.changes {
            let Some(name) = &change.link else {
                let message = "a workload's change says which `link`".into();
                return Err(place.at(&workload.name, message));
            };
            let shaped = || e.links.iter().filter(|l| l.down.is_some()).map(|l| &l.name);
            if !shaped().any(|l| l == name) {
                return Err(place.at(name, unknown("link with rates", name, shaped())));
            }
            if change.loss.is_some_and(|p| !(0.0..=1.0).contains(&p)) {
                return Err(place.at(name, "loss is a probability from 0 to 1".into()));
            }
        }
    }
    Ok(())
}

fn workloads(e: &Experiment, place: &Place) -> Result<()> {
    unique(place, "workload", e.workloads.iter().map(|w| &w.name))?;
    for workload in &e.workloads {
        let name = workload.name.get_ref();
        let wrong = |message: &str| {
            let text = format!("workload \"{name}\": {message}");
            Err(place.at(&workload.name, text))
        };
        let kinds = [
            workload.video.is_some(),
            workload.page.is_some(),
            workload.stream.is_some(),
            workload.chunks.is_some(),
            workload.messages.is_some(),
            workload.length.is_some(),
            workload.bytes.0 > 0,
        ];
        if kinds.into_iter().filter(|kind| *kind).count() != 1 {
            return wrong(
                "bytes: from 1 B to 4 GiB, or one of video, page, stream, chunks, messages and for",
            );
        }
        if let Some(app) = workload.application() {
            if workload.direction == Direction::Up {
                return wrong("direction: applications only download");
            }
            if e.client != Client::Fetch {
                return wrong("applications need `client = \"fetch\"`");
            }
            if let Some(complaint) = app.complaint() {
                return wrong(complaint);
            }
        }
        if workload.most_bytes() > MAX_BYTES {
            return wrong("bytes: at most 4 GiB in all");
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
        let named = [&assert.scheme, &assert.not_slower_than, &assert.versus];
        for scheme in named.into_iter().flatten() {
            if !e.schemes.iter().any(|s| s.name == *scheme) {
                return Err(place.at(
                    scheme,
                    unknown("scheme", scheme, e.schemes.iter().map(|s| &s.name)),
                ));
            }
        }
        if let Some(s) = &assert.setting
            && !e.settings.iter().any(|x| x.name == *s)
        {
            return Err(place.at(s, unknown("setting", s, e.settings.iter().map(|s| &s.name))));
        }
        let bounded = assert.at_most.is_some() || assert.at_least.is_some();
        let wrong = if assert.versus.is_some() && !bounded {
            Some("`versus` needs `quantity` with `at_most` or `at_least`")
        } else if bounded != assert.quantity.is_some() {
            Some("`quantity` goes with `at_most` or `at_least`")
        } else if assert
            .quantity
            .as_ref()
            .is_some_and(|q| q.get_ref().is_energy())
            && e.energy.is_empty()
        {
            Some("energy needs a model, [[energy]]")
        } else {
            None
        };
        if let Some(wrong) = wrong {
            let spans = [
                assert.versus.as_ref().map(Spanned::span),
                assert.quantity.as_ref().map(Spanned::span),
            ];
            return Err(place.error(spans.into_iter().flatten().next(), wrong));
        }
        if let Some(model) = &assert.model
            && !e.energy.iter().any(|m| m.name == *model)
        {
            let all = e.energy.iter().map(|m| &m.name);
            return Err(place.at(model, unknown("energy model", model, all)));
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

/// One axis for all that stands on it, and no axis without.
fn parameter(e: &Experiment, place: &Place) -> Result<()> {
    let settings = e.settings.iter().map(|s| (&s.name, s.parameter));
    let schemes = e.schemes.iter().map(|s| (&s.name, s.parameter));
    let of = |list: Vec<(&Spanned<String>, Option<f64>)>| {
        let given = list.into_iter().find(|(_, p)| p.is_some());
        given.map(|(name, p)| (name.span(), p))
    };
    let (in_settings, in_schemes) = (of(settings.collect()), of(schemes.collect()));
    let wrong = |span: Range<usize>, why: &str| Err(place.error(Some(span), why));
    match (&e.parameter, in_settings, in_schemes) {
        (None, Some((span, _)), _) | (None, None, Some((span, _))) => wrong(
            span,
            "`parameter` of a setting or scheme: the experiment's `parameter` must say what it is",
        ),
        (Some(_), Some((span, _)), Some(_)) => {
            wrong(span, "`parameter`: either of settings or of schemes")
        }
        (Some(_), None, None) => {
            Err(place.error(None, "`parameter`: no setting and no scheme has one"))
        }
        (_, Some((span, Some(p))), _) | (_, _, Some((span, Some(p)))) if !p.is_finite() => {
            wrong(span, "`parameter` is a number")
        }
        _ => Ok(()),
    }
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

pub(super) fn unknown<'a>(
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
