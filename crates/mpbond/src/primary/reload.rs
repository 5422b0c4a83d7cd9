//! Changes of the configuration while the primary runs.

use std::rc::Rc;

use mpbond_manager::{LinkId, NOT_CONFIGURED};

use super::links::LinkConfig;
use super::state::{Primary, in_force, without_proxy};
use crate::api::EventKind;
use crate::config::{OnProxyLoss, PrimaryConfig};

impl Primary {
    /// Puts another configuration in force.
    pub(super) fn configure(self: &Rc<Self>, config: &PrimaryConfig) {
        // What links that go now have moved is of their caps, too.
        self.count_for_status();
        self.configure_links(config);
        let is_other_policy = self.policy_source.borrow().as_ref() != config.policy.as_ref();
        if is_other_policy {
            self.policy_source.replace(config.policy.clone());
            self.happened(EventKind::PolicyChanged);
        }
        let rules = in_force(config, self.policy.borrow().as_deref());
        self.policy.replace(rules);
        self.limits_changed();
        if is_other_policy {
            self.tell_other_rules();
        }
        self.apply_prices();
        let driver = self.driver.borrow().clone();
        if let Some(driver) = driver {
            self.watch_prices(&driver);
            self.watch_pipes(&driver);
        }
        let before = self.on_proxy_loss.replace(config.on_proxy_loss);
        if config.on_proxy_loss != before {
            if config.on_proxy_loss == OnProxyLoss::Fail {
                self.rescuable.borrow_mut().clear();
            }
            let without_proxy = without_proxy(config.on_proxy_loss);
            self.manage_with_facts(|m, now| m.handle_without_proxy(now, without_proxy));
        }
    }

    /// Takes the paths and helpers of another configuration into use, and the others out of use.
    /// One that is configured otherwise than before is another one, but for a pipe's radios.
    fn configure_links(self: &Rc<Self>, config: &PrimaryConfig) {
        let before = self.links.borrow().all();
        let configured = LinkConfig::all(config);
        self.link_facts
            .keep(configured.iter().map(LinkConfig::name));
        let (wanted, off) = self.modes.apply(configured);
        self.off.replace(off);
        let stays = |known: &LinkConfig| wanted.iter().any(|link| known.has_connections_of(link));
        let (stay, gone): (Vec<_>, Vec<_>) =
            before.into_iter().partition(|(_, known)| stays(known));
        // First those that are new: the others' bytes may move over.
        for link in wanted {
            match stay
                .iter()
                .find(|(_, known)| known.has_connections_of(&link))
            {
                None => self.add_link(link),
                Some((_, known)) if **known == link => {}
                Some((id, _)) => self.change_radios(*id, link),
            }
        }
        for (id, link) in gone {
            self.remove_link(id, link.name());
        }
    }

    fn change_radios(self: &Rc<Self>, id: LinkId, link: LinkConfig) {
        let radios = link.radios();
        self.links.borrow_mut().insert(id, link);
        self.manage(|m, now| m.handle_radios(now, id, radios));
    }

    fn add_link(self: &Rc<Self>, link: LinkConfig) {
        self.manage(|m, now| {
            let mut links = self.links.borrow_mut();
            let id = m.handle_link_added(now, links.setup(&link));
            self.resolvers.add(id, &link);
            links.insert(id, link);
        });
    }

    fn remove_link(self: &Rc<Self>, id: LinkId, name: &str) {
        self.links.borrow_mut().remove(id);
        self.resolvers.remove(id);
        self.limits.helpers.borrow_mut().remove(&id);
        self.frames.remove(id);
        self.addresses.borrow_mut().by_link.remove(&id);
        self.manage(|m, now| m.handle_link_removed(now, id));
        // The manager is told nothing of the subflows of sessions that retire.
        let retiring = self.retiring.borrow().clone();
        for driver in retiring {
            driver.drop_subflows_named(name, NOT_CONFIGURED);
        }
    }
}
