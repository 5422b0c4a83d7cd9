//! Reading of a configuration while its daemon runs: the difference to the one in force, of which a
//! part applies at once and the rest at the next start.

use serde::{Deserialize, Serialize};

use super::{HelperConfig, KillSwitch, PrimaryConfig, ProxyConfig, Transparent};

/// Sentence about a key that a reload applies.
const APPLIED: &str = "`mpbond reload` applies a change.";

/// Result of a reload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// Keys whose change applies now; of paths and pipes to helpers each, with the kind of change.
    pub applied: Vec<String>,
    /// Keys and sections whose change applies at the next start.
    pub restart: Vec<String>,
}

impl Changes {
    fn applied<T: PartialEq>(&mut self, key: &str, now: &T, new: &T) {
        if now != new {
            self.applied.push(key.to_owned());
        }
    }

    fn restart<T: PartialEq>(&mut self, key: &str, now: &T, new: &T) {
        if now != new {
            self.restart.push(key.to_owned());
        }
    }

    /// Sections of which there are several, each with a name of its own.
    fn sections<T: PartialEq>(
        &mut self,
        header: &str,
        (now, new): (&[T], &[T]),
        name: fn(&T) -> &String,
    ) {
        let find = |list: &'_ [T], wanted: &T| list.iter().position(|s| name(s) == name(wanted));
        for section in new {
            let change = match find(now, section) {
                None => "added",
                Some(at) if now.get(at) != Some(section) => "changed",
                Some(_) => continue,
            };
            self.applied
                .push(format!("{header} \"{}\" {change}", name(section)));
        }
        for section in now.iter().filter(|section| find(new, section).is_none()) {
            self.applied
                .push(format!("{header} \"{}\" removed", name(section)));
        }
    }
}

/// A configuration that can be read again.
pub trait Reload: Clone {
    /// The configuration in force after a reload, and the difference to that in force before.
    #[must_use]
    fn reload(&self, new: Self) -> (Self, Changes);
}

fn kill_switch(transparent: &Option<Transparent>) -> KillSwitch {
    let transparent = transparent.as_ref();
    transparent.map_or(KillSwitch::Off, |t| t.kill_switch)
}

impl Reload for PrimaryConfig {
    fn reload(&self, new: Self) -> (Self, Changes) {
        let mut changes = Changes::default();
        let Self {
            identity,
            status_socket,
            metrics,
            sandbox,
            take_over: _,
            scheduler,
            reinjection,
            feedback,
            buffer_delay,
            congestion,
            resume_for,
            mut on_proxy_loss,
            proxy,
            paths,
            helpers,
            socks5,
            http,
            transparent,
            policy,
        } = new;
        changes.sections("[[path]]", (&self.paths, &paths), |p| &p.name);
        changes.sections("[[helper]]", (&self.helpers, &helpers), |h| &h.name);
        // A kill switch goes with its policy.
        let (now, key) = (self.on_proxy_loss, "on_proxy_loss");
        if kill_switch(&self.transparent) == kill_switch(&transparent) {
            changes.applied(key, &now, &on_proxy_loss);
        } else {
            changes.restart(key, &now, &on_proxy_loss);
            on_proxy_loss = now;
        }
        changes.restart("identity", &self.identity, &identity);
        changes.restart("status_socket", &self.status_socket, &status_socket);
        changes.restart("metrics", &self.metrics, &metrics);
        changes.restart("sandbox", &self.sandbox, &sandbox);
        changes.restart("scheduler", &self.scheduler, &scheduler);
        changes.restart("reinjection", &self.reinjection, &reinjection);
        changes.restart("feedback", &self.feedback, &feedback);
        changes.restart("buffer_delay", &self.buffer_delay, &buffer_delay);
        changes.restart("congestion", &self.congestion, &congestion);
        changes.restart("resume_for", &self.resume_for, &resume_for);
        changes.restart("[proxy]", &self.proxy, &proxy);
        changes.restart("[socks5]", &self.socks5, &socks5);
        changes.restart("[http]", &self.http, &http);
        changes.restart("[transparent]", &self.transparent, &transparent);
        let mut in_force = Self {
            on_proxy_loss,
            paths,
            helpers,
            ..self.clone()
        };
        // With the kill switch that stays until a restart.
        let fits = policy
            .as_ref()
            .is_none_or(|new| in_force.check_policy(new).is_ok());
        if fits {
            changes.applied("policy", &self.policy, &policy);
            in_force.policy = policy;
        } else {
            changes.restart("policy", &self.policy, &policy);
        }
        (in_force, changes)
    }
}

impl Reload for HelperConfig {
    fn reload(&self, new: Self) -> (Self, Changes) {
        let mut changes = Changes::default();
        let Self {
            name,
            listen,
            listen_unix,
            identity,
            status_socket,
            metrics,
            sandbox,
            take_over: _,
            trust,
            proxies,
            uplink,
            buffer_bytes,
            mut max_bytes_per_month,
            battery_floor,
            enabled,
            announce,
            ethernet_frames,
            congestion,
        } = new;
        changes.applied("enabled", &self.enabled, &enabled);
        changes.applied("proxies", &self.proxies, &proxies);
        changes.applied("buffer", &self.buffer_bytes, &buffer_bytes);
        changes.applied("battery_floor", &self.battery_floor, &battery_floor);
        // The account is a file that the daemon's sandbox leaves open only where there is a budget.
        let (now, key) = (self.max_bytes_per_month, "max_bytes_per_month");
        if now.is_some() == max_bytes_per_month.is_some() {
            changes.applied(key, &now, &max_bytes_per_month);
        } else {
            changes.restart(key, &now, &max_bytes_per_month);
            max_bytes_per_month = now;
        }
        changes.restart("name", &self.name, &name);
        let in_force = (&self.listen, &self.listen_unix);
        changes.restart("listen", &in_force, &(&listen, &listen_unix));
        changes.restart("identity", &self.identity, &identity);
        changes.restart("status_socket", &self.status_socket, &status_socket);
        changes.restart("metrics", &self.metrics, &metrics);
        changes.restart("sandbox", &self.sandbox, &sandbox);
        changes.restart("trust", &self.trust, &trust);
        changes.restart("[uplink]", &self.uplink, &uplink);
        changes.restart("announce", &self.announce, &announce);
        let (now, key) = (self.ethernet_frames, "ethernet_frames");
        changes.restart(key, &now, &ethernet_frames);
        changes.restart("congestion", &self.congestion, &congestion);
        let in_force = Self {
            proxies,
            buffer_bytes,
            max_bytes_per_month,
            battery_floor,
            enabled,
            ..self.clone()
        };
        (in_force, changes)
    }
}

impl Reload for ProxyConfig {
    fn reload(&self, new: Self) -> (Self, Changes) {
        let mut changes = Changes::default();
        let Self {
            listen,
            identity,
            status_socket,
            metrics,
            sandbox,
            trust,
            scheduler,
            reinjection,
            feedback,
            buffer_delay,
            congestion,
            resume_for,
            stop_within,
            drain,
            take_over: _,
            destinations,
            serve,
            workers,
            memory_bytes,
        } = new;
        let (allow, deny) = (&destinations.allow, &destinations.deny);
        changes.applied("[destinations] allow", &self.destinations.allow, allow);
        changes.applied("[destinations] deny", &self.destinations.deny, deny);
        changes.applied("memory", &self.memory_bytes, &memory_bytes);
        changes.applied("stop_within", &self.stop_within, &stop_within);
        changes.applied("drain", &self.drain, &drain);
        changes.restart("listen", &self.listen, &listen);
        changes.restart("identity", &self.identity, &identity);
        changes.restart("status_socket", &self.status_socket, &status_socket);
        changes.restart("metrics", &self.metrics, &metrics);
        changes.restart("sandbox", &self.sandbox, &sandbox);
        changes.restart("trust", &self.trust, &trust);
        changes.restart("scheduler", &self.scheduler, &scheduler);
        changes.restart("reinjection", &self.reinjection, &reinjection);
        changes.restart("feedback", &self.feedback, &feedback);
        changes.restart("buffer_delay", &self.buffer_delay, &buffer_delay);
        changes.restart("congestion", &self.congestion, &congestion);
        changes.restart("resume_for", &self.resume_for, &resume_for);
        changes.restart("serve", &self.serve, &serve);
        changes.restart("workers", &self.workers, &workers);
        let in_force = Self {
            stop_within,
            drain,
            destinations,
            memory_bytes,
            ..self.clone()
        };
        (in_force, changes)
    }
}

/// Sentence about a key of a primary in its reference; empty where a change needs a restart.
pub(super) fn of_primary(header: &str, key: &str) -> &'static str {
    match (header, key) {
        ("[[path]]" | "[[helper]]" | "[[helper.pipe]]", _) | ("", "on_proxy_loss" | "policy") => {
            APPLIED
        }
        _ => "",
    }
}

/// The same of a helper.
pub(super) fn of_helper(header: &str, key: &str) -> &'static str {
    match (header, key) {
        ("", "enabled" | "proxies" | "buffer" | "battery_floor") => APPLIED,
        ("", "max_bytes_per_month") => {
            "`mpbond reload` applies another amount; the first one, and its removal, need a restart."
        }
        _ => "",
    }
}

/// The same of a proxy.
pub(super) fn of_proxy(header: &str, key: &str) -> &'static str {
    match (header, key) {
        ("[destinations]", _) | ("", "memory" | "stop_within" | "drain") => APPLIED,
        _ => "",
    }
}
