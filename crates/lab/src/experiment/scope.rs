//! The part of an experiment that can be simulated.

use super::file::Experiment;
use super::link::Link;
use super::scheme::{Carrier, Pipes, Scheme};
use super::terms::Role;
use super::workload::Workload;
use crate::figures::quantity::Quantity;

/// Extent to which an experiment can be simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All of it.
    All,
    /// Some schemes, workloads or asserts are left out.
    Part,
    /// Nothing.
    Nothing,
}

impl Scope {
    /// The scope of `e`.
    pub fn of(mut e: Experiment) -> Self {
        match (leave_out(&mut e).is_empty(), e.schemes.is_empty()) {
            (_, true) => Self::Nothing,
            (true, false) => Self::All,
            (false, false) => Self::Part,
        }
    }

    /// One word for tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Part => "part",
            Self::Nothing => "no",
        }
    }
}

/// Removes everything that cannot be simulated, and returns each item with its reason: schemes and
/// workloads; asserts and published figures of these or of processor time.
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

    // Schemes that the person did not select are no reason.
    let left = |name: &String| e.schemes.iter().any(|s| s.name.get_ref() == name);
    let gone: Vec<&String> = all.iter().filter(|name| !left(name)).collect();
    let there = |name: Option<&toml::Spanned<String>>| {
        name.is_none_or(|name| !gone.contains(&name.get_ref()))
    };
    let measured = |q: Quantity| {
        use Quantity::{CpuHelper, CpuMachine, CpuPrimary};
        !matches!(q, CpuPrimary | CpuHelper | CpuMachine)
    };
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
            "{fewer} of {before} asserts and published figures, about these or processor time"
        ));
    }
    said
}

/// A requirement of `scheme` that simulation lacks.
fn scheme_needs(scheme: &Scheme) -> Option<String> {
    match scheme.scheme {
        Carrier::Kibbutz => return Some("kibbutz needs the kernel's Multipath TCP".into()),
        Carrier::Combine => return Some("combine needs HTTP".into()),
        Carrier::External => return Some("programs other than mpbond are not simulated".into()),
        Carrier::Mpbond | Carrier::Single => {}
    }
    (scheme.congestion != "cubic").then(|| {
        format!(
            "congestion control {}: only cubic is simulated",
            scheme.congestion
        )
    })
}

/// Whether the loss of a link's carrier is simulated: it is one of Bluetooth, whose connections
/// end, or one of several pipes to a helper of which all schemes with `workload` use the best one.
fn tells(e: &Experiment, workload: &Workload, link: &Link) -> bool {
    let mut schemes = e.schemes.iter().filter(|s| s.carries(workload));
    let is_pipe = e.role_of(link.to.get_ref()) == Some(Role::Helper);
    let several = is_pipe && e.pipes_of(link.to.get_ref()).count() > 1;
    let is_chosen = several && schemes.all(|s| s.pipes == Pipes::Best || s.devices == 1);
    link.bluetooth.is_some() || is_chosen
}

/// A requirement of `workload` that simulation lacks.
fn workload_needs(e: &Experiment, workload: &Workload) -> Option<&'static str> {
    let loses_carrier = |link| {
        let changes = workload.on(link).changes;
        changes.iter().any(|c| c.carrier.is_some()) && !tells(e, workload, link)
    };
    let loud = workload.faults.iter().any(|f| f.down_with_error.is_some());
    if loud || e.links.iter().any(loses_carrier) {
        return Some("the loss of a carrier is reported by the kernel");
    }
    let dies = |host: &str| e.role_of(host) == Some(Role::Proxy);
    let mut kills = workload.faults.iter().filter_map(|f| f.kill.as_ref());
    (kills.any(|host| dies(host.get_ref()))).then_some("its proxy dies")
}
