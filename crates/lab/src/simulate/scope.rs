//! What of an experiment can be simulated.

use crate::experiment::{Application, Carrier, Experiment, Role, Scheme, Workload, name_of};
use crate::quantity::Quantity;

/// How much of an experiment can be simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All of it.
    All,
    /// Some schemes or workloads, or asserts, are left out.
    Part,
    /// Nothing.
    Nothing,
}

impl Scope {
    /// Of `e`.
    pub fn of(mut e: Experiment) -> Self {
        match (leave_out(&mut e).is_empty(), e.schemes.is_empty()) {
            (_, true) => Self::Nothing,
            (true, false) => Self::All,
            (false, false) => Self::Part,
        }
    }

    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Part => "part",
            Self::Nothing => "no",
        }
    }
}

/// Drops what cannot be simulated, and says what it was and why: schemes,
/// workloads, and what is asserted or published of these or of processors.
pub(crate) fn leave_out(e: &mut Experiment) -> Vec<String> {
    let mut said = Vec::new();
    let mut say = |what: String| {
        if !said.contains(&what) {
            said.push(what);
        }
    };
    let carries = |s: &&Scheme| e.workloads_of(s).next().is_some();
    let all: Vec<String> = (e.schemes.iter().filter(carries))
        .map(|s| s.name.get_ref().clone())
        .collect();
    e.schemes.retain(|scheme| {
        let why = scheme_needs(scheme);
        if let Some(why) = &why {
            say(format!("scheme \"{}\": {why}", scheme.name.get_ref()));
        }
        why.is_none()
    });
    let needs: Vec<Option<&str>> = e.workloads.iter().map(|w| workload_needs(e, w)).collect();
    let mut needs = needs.into_iter();
    e.workloads.retain(|workload| {
        let why = needs.next().flatten();
        if let Some(why) = why {
            let setting = workload.setting.as_ref();
            let name = setting.map_or(workload.name.get_ref(), |(_, in_file)| in_file);
            say(format!("workload \"{name}\": {why}"));
        }
        why.is_none()
    });
    let workloads = &e.workloads;
    (e.schemes).retain(|scheme| workloads.iter().any(|w| scheme.carries(w)));

    // A scheme that was not chosen is no business of ours.
    let left = |name: &String| e.schemes.iter().any(|s| s.name.get_ref() == name);
    let gone: Vec<&String> = all.iter().filter(|name| !left(name)).collect();
    let there = |name: Option<&toml::Spanned<String>>| {
        name.is_none_or(|name| !gone.contains(&name.get_ref()))
    };
    let measured = |q: Quantity| !matches!(q, Quantity::CpuPrimary | Quantity::CpuHelper);
    let before = e.asserts.len() + e.papers.len();
    e.asserts.retain(|a| {
        let named = [&a.scheme, &a.versus, &a.not_slower_than];
        let quantity = a.quantity.as_ref();
        named.into_iter().all(|name| there(name.as_ref()))
            && quantity.is_none_or(|q| measured(*q.get_ref()))
    });
    e.papers
        .retain(|p| there(Some(&p.scheme)) && there(p.versus.as_ref()) && measured(p.quantity));
    let fewer = before - e.asserts.len() - e.papers.len();
    if fewer > 0 {
        say(format!(
            "{fewer} of {before} asserts and published figures, which are of these or of processors"
        ));
    }
    said
}

/// What `scheme` needs that a simulation has not.
fn scheme_needs(scheme: &Scheme) -> Option<String> {
    let carrier = scheme.scheme;
    match carrier {
        Carrier::Kibbutz => return Some("kibbutz needs the kernel's Multipath TCP".into()),
        Carrier::Combine => return Some("combine needs HTTP".into()),
        Carrier::Mpbond | Carrier::Single => {}
    }
    if scheme.congestion != "cubic" {
        return Some(format!(
            "congestion control {} is the kernel's; the simulated one is cubic",
            scheme.congestion
        ));
    }
    (scheme.dual).then(|| {
        format!(
            "dual mode of {}: two users are not simulated",
            name_of(carrier)
        )
    })
}

/// What `workload` needs that a simulation has not.
fn workload_needs(e: &Experiment, workload: &Workload) -> Option<&'static str> {
    match workload.application() {
        Some(Application::Video(_)) => return Some("videos need their player"),
        Some(Application::Page(_)) => return Some("pages need their client"),
        Some(Application::Stream(_)) => return Some("streams need their client"),
        Some(Application::Messages(_)) => return Some("messages need their client"),
        Some(Application::Chunks(_) | Application::Timed(_)) | None => {}
    }
    let loses_carrier = |link| {
        workload
            .on(link)
            .changes
            .iter()
            .any(|c| c.carrier.is_some())
    };
    let loud = workload.faults.iter().any(|f| f.down_with_error.is_some());
    if loud || e.links.iter().any(loses_carrier) {
        return Some("that a carrier is lost is told by the kernel");
    }
    let dies = |host: &str| e.role_of(host) == Some(Role::Proxy);
    let mut kills = workload.faults.iter().filter_map(|f| f.kill.as_ref());
    (kills.any(|host| dies(host.get_ref()))).then_some("its proxy dies")
}
