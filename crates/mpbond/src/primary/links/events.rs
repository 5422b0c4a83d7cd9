//! Events about links: the manager's view of them, compared with the one before.

use mpbond_manager::LinkState;
use mpbond_session::SubflowId;

use super::LinkConfig;
use crate::api::{Event, EventKind};
use crate::primary::state::Primary;

/// Type of the event of a link that comes, and of one that goes.
const fn kinds(link: &LinkConfig) -> (EventKind, EventKind) {
    match link {
        LinkConfig::Path(_) => (EventKind::LinkUp, EventKind::LinkDown),
        LinkConfig::Pipe(_) => (EventKind::HelperJoined, EventKind::HelperLeft),
    }
}

impl Primary {
    /// Keeps the events of links that have come up or gone down since the last call; whether any
    /// has.
    pub(in crate::primary) fn note_links(&self) -> bool {
        let manager = self.manager.borrow();
        let mut up = self.links_up.0.borrow_mut();
        let mut comes_or_goes = false;
        let is_up = |id| matches!(manager.link(id), Some(LinkState::Up));
        self.links.borrow().each(|id, link| {
            if is_up(id) && !up.contains_key(&id) {
                comes_or_goes = true;
                let (comes, goes) = kinds(link);
                let name = link.name().to_owned();
                self.events.push(
                    self.clock.now(),
                    Event {
                        kind: comes,
                        link: Some(name.clone()),
                        reason: None,
                        rule: None,
                    },
                );
                up.insert(id, (goes, name));
            }
        });
        up.retain(|id, (goes, name)| {
            let stays = is_up(*id);
            if !stays {
                comes_or_goes = true;
                let reason = match manager.link(*id) {
                    Some(LinkState::Connecting(reason) | LinkState::Waiting(reason)) => {
                        reason.map(str::to_owned)
                    }
                    _ => None,
                };
                self.events.push(
                    self.clock.now(),
                    Event {
                        kind: *goes,
                        link: Some(std::mem::take(name)),
                        reason,
                        rule: None,
                    },
                );
            }
            stays
        });
        comes_or_goes
    }

    /// Keeps an event without details.
    pub(in crate::primary) fn happened(&self, kind: EventKind) {
        self.happened_to(kind, None, None);
    }

    /// Keeps an event of a link, or with a reason.
    pub(in crate::primary) fn happened_to(
        &self,
        kind: EventKind,
        link: Option<&str>,
        reason: Option<String>,
    ) {
        let link = link.map(str::to_owned);
        self.events.push(
            self.clock.now(),
            Event {
                kind,
                link,
                reason,
                rule: None,
            },
        );
    }

    /// A subflow is silent.
    pub(in crate::primary) fn note_silent(&self, subflow: SubflowId) {
        let driver = self.driver.borrow();
        let name = driver.as_ref().and_then(|driver| driver.name_of(subflow));
        self.events.push(
            self.clock.now(),
            Event {
                kind: EventKind::LinkSuspect,
                link: name,
                reason: None,
                rule: None,
            },
        );
    }
}
