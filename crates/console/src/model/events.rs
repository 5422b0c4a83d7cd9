//! Events: what has changed between two answers of a daemon.

use std::collections::{HashMap, VecDeque};

use serde::Serialize;

use super::paths::{Key, Path, Standing, short};

/// Events that are kept.
const KEPT: usize = 256;

/// Maximum number of events of one comparison.
const MAX_AT_ONCE: usize = 32;

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// A path can carry data.
    PathUp,
    /// A path cannot carry data.
    PathDown,
    /// A path does not answer, and may have failed.
    PathSuspect,
    /// A helper lends its link.
    HelperJoined,
    /// A helper does not lend its link any more.
    HelperLeft,
    /// A primary uses this helper.
    PrimaryJoined,
    /// A primary does not use this helper any more.
    PrimaryLeft,
    /// The daemon does not answer.
    DaemonLost,
    /// The daemon answers again.
    DaemonBack,
    /// Another process answers than before.
    DaemonRestarted,
    /// No path to the proxy works.
    OutageBegin,
    /// One does again.
    OutageEnd,
    /// Another policy is in force.
    PolicyChanged,
    /// An open connection keeps its rule, although that policy would treat it otherwise. The text
    /// names its ends.
    StreamRule,
    /// Much of a cap or a budget is used.
    LimitNear,
    /// All of it is used, or a battery is below its floor.
    LimitReached,
    /// Another one of several pipes is used.
    PipeChosen,
    /// A device has called with the code of a pairing.
    PairingRequest,
}

/// An event. The numbers rise by one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Event {
    pub id: u64,
    pub t: f64,
    pub kind: Kind,
    /// Name of the path, helper or primary; empty for the daemon.
    pub subject: String,
    pub text: String,
}

/// The last events.
#[derive(Debug, Default)]
pub(super) struct Events {
    last: VecDeque<Event>,
    next: u64,
}

impl Events {
    /// Number of the next event.
    pub fn next_id(&self) -> u64 {
        self.next
    }

    /// Events with this number and later ones, as far as they are kept.
    pub fn since(&self, id: u64) -> Vec<Event> {
        let later = self.last.iter().filter(|event| event.id >= id);
        later.cloned().collect()
    }

    pub fn add(&mut self, t: f64, kind: Kind, subject: &str, text: &str) {
        self.last.push_back(Event {
            id: self.next,
            t,
            kind,
            subject: subject.to_owned(),
            text: text.to_owned(),
        });
        self.next += 1;
        if self.last.len() > KEPT {
            self.last.pop_front();
        }
    }

    /// Adds what has changed between two lists of paths.
    pub fn compare(&mut self, t: f64, role: &str, before: &[Path], now: &[Path]) {
        let had: HashMap<&Key, Standing> = before.iter().map(|p| (&p.key, p.standing())).collect();
        let mut changes = Vec::new();
        for path in now {
            let before = had.get(&path.key).copied().unwrap_or(Standing::Out);
            if before != path.standing() {
                changes.push((path, path.standing()));
            }
        }
        let has: std::collections::HashSet<&Key> = now.iter().map(|p| &p.key).collect();
        let gone = before.iter().filter(|p| !has.contains(&p.key));
        changes.extend(
            gone.filter(|p| p.standing() != Standing::Out)
                .map(|p| (p, Standing::Out)),
        );
        for (path, standing) in changes.into_iter().take(MAX_AT_ONCE) {
            let subject = subject(role, path);
            let (kind, text) = change(path, standing);
            self.add(t, kind, &subject, &format!("{subject} {text}"));
        }
    }
}

/// Name of a path in events, at a daemon of this role.
fn subject(role: &str, path: &Path) -> String {
    match role {
        "helper" => short(&path.key.peer),
        "proxy" => format!("{} of {}", path.key.name, short(&path.key.peer)),
        _ => path.key.name.clone(),
    }
}

fn change(path: &Path, standing: Standing) -> (Kind, String) {
    let because = || {
        path.error
            .as_ref()
            .map_or(String::new(), |e| format!(": {e}"))
    };
    match (standing, path.kind.as_str()) {
        (Standing::Usable, "primary") => (Kind::PrimaryJoined, "uses this link".to_owned()),
        (_, "primary") => (
            Kind::PrimaryLeft,
            "does not use this link any more".to_owned(),
        ),
        (Standing::Usable, "helper") => (Kind::HelperJoined, "has joined".to_owned()),
        (Standing::Usable, _) => (Kind::PathUp, "is up".to_owned()),
        (Standing::Suspect, _) => (Kind::PathSuspect, "does not answer".to_owned()),
        (Standing::Out, "helper") => (Kind::HelperLeft, format!("has left{}", because())),
        (Standing::Out, _) => (Kind::PathDown, format!("is down{}", because())),
    }
}
