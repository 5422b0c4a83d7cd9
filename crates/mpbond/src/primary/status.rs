//! Status of a primary, and notes on its state.

use std::rc::Rc;

use mpbond_manager::{LinkId, LinkState, PipeChoice, Why};
use mpbond_policy::Certainty;
use mpbond_units::Timestamp;

use super::links::LinkConfig;
use super::state::Primary;
use crate::config::{KillSwitch, OnProxyLoss};
use crate::driver::Driver;
use crate::status::{ChoiceStatus, LimitStatus, LinkStatus, SessionStatus, Status};

impl Primary {
    pub(super) fn not_trusted_note(&self) -> String {
        let id = self.identity.id();
        format!(
            "the proxy does not trust this device, and ends what it had open: run `mpbond trust \
             {id}` on the proxy, or `mpbond pair` here with a token of `mpbond proxy enrol`"
        )
    }

    fn outage_note(&self, since: Timestamp) -> String {
        let seconds = self.clock.now().since(since).as_secs();
        let policy = self.without_proxy();
        format!("no path to the proxy has worked for {seconds} s: {policy}")
    }

    /// What becomes of new connections in an outage, for people.
    pub(super) fn without_proxy(&self) -> &'static str {
        match self.on_proxy_loss.get() {
            OnProxyLoss::Direct => "new connections go direct, over one path",
            OnProxyLoss::Fail => "new connections are refused",
        }
    }

    fn kill_switch(&self) -> Option<&'static str> {
        match self.config.transparent.as_ref()?.kill_switch {
            KillSwitch::Off => None,
            KillSwitch::UntilStop => Some("until-stop"),
            KillSwitch::Permanent => Some("permanent"),
        }
    }

    pub(super) fn link_status(&self) -> Vec<LinkStatus> {
        self.count_for_status();
        let manager = self.manager.borrow();
        let links = self.links.borrow().all();
        let subflows = self.subflows();
        let status = |(id, link): (LinkId, Rc<LinkConfig>)| {
            let (state, error) = match manager.link(id)? {
                LinkState::Up => ("up", None),
                LinkState::Connecting(error) => ("connecting", error),
                LinkState::Waiting(error) => ("waiting", error),
            };
            let problem = link.problem();
            let told = self.limits.told(id);
            let (metered, metered_guessed) = self.metered_of(link.name(), told.metered);
            Some(LinkStatus {
                name: link.name().to_owned(),
                kind: link.kind().to_owned(),
                max_segment_bytes: manager.max_segment_bytes(id),
                state: problem.as_ref().map_or(state, |_| "down").to_owned(),
                error: problem.or(error.map(str::to_owned)),
                choice: manager.pipe_choice(id).map(|choice| self.choice_of(choice)),
                ethernet: link.may_use_frames().then(|| self.frames.status(id)),
                energy: self.energy_of(link.name(), &subflows),
                pipe_energy: self.energy_of_pipe(link.name()),
                cap: self.cap_of(link.name()),
                battery_percent: told.battery.percent,
                charging: told.battery.is_charging,
                metered,
                metered_guessed,
                lent_bytes_left: told.bytes_left,
                limits: LimitStatus::of(told.limits(self.clock.now())),
            })
        };
        let off = self.off.borrow();
        let off = off.iter().map(|link| {
            let (metered, metered_guessed) = self.metered_of(link.name(), None);
            LinkStatus {
                name: link.name().to_owned(),
                kind: link.kind().to_owned(),
                state: "off".to_owned(),
                metered,
                metered_guessed,
                ..LinkStatus::default()
            }
        });
        links.into_iter().filter_map(status).chain(off).collect()
    }

    /// Whether a link is metered, as rules have it, and whether that is a guess.
    fn metered_of(&self, link: &str, helper: Option<bool>) -> (Option<bool>, bool) {
        let policy = self.policy.borrow();
        if let Some(stated) = policy.as_ref().and_then(|policy| policy.metered(link)) {
            return (Some(stated), false);
        }
        let metered = self.facts_of(link).metered(helper);
        let is_guess = metered.certainty() == Certainty::Guessed;
        (metered.get().map(|(is, _)| *is), is_guess)
    }

    /// Use of one of several pipes, for people.
    fn choice_of(&self, choice: PipeChoice) -> ChoiceStatus {
        ChoiceStatus {
            state: choice.state.name().to_owned(),
            reason: self.reason_of(choice.why),
            milliwatts: choice.milliwatts,
        }
    }

    /// Reason for which a pipe is used, for people.
    pub(super) fn reason_of(&self, why: Why) -> String {
        let before = why.before().map(|before| self.link_name(before));
        why.text(&before.unwrap_or_default())
    }

    /// Snapshot for `mpbond status` and metrics, without streams.
    pub(super) fn status(&self) -> Status {
        let drivers = self.drivers();
        let manager = self.manager.borrow();
        let not_trusted = manager.is_not_trusted().then(|| self.not_trusted_note());
        let outage = manager.outage_since().map(|since| self.outage_note(since));
        let notes = self.notes.borrow();
        let links = self.link_status();
        // Those links have counted what their caps have used.
        let (account_problem, clock_note) = {
            let usage = self.limits.usage.borrow();
            (usage.problem(), usage.clock_note(usage.today()))
        };
        let policy = self.policy.borrow();
        let rules = policy
            .as_ref()
            .map_or_else(Vec::new, |rules| rules.status());
        let mut sessions: Vec<SessionStatus> = drivers.iter().map(Driver::status).collect();
        sessions.iter_mut().for_each(|s| s.mark_down(&links));
        let (peers, paths) = self.log.totals().with(&sessions);
        let mut status = Status {
            role: "primary".to_owned(),
            device: self.identity.id().to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            process: std::process::id(),
            uptime_s: self.clock.now().as_secs_f64(),
            sessions,
            peers,
            paths,
            direct_total: Some(self.direct.get()),
            links,
            rules,
            default_flows_total: policy.as_ref().map(|rules| rules.others()),
            on_proxy_loss: Some(self.on_proxy_loss.get().name().to_owned()),
            kill_switch: self.kill_switch().map(str::to_owned),
            proxy_lacks: self.proxy_lacks(),
            account_problem,
            sandbox: self.sandboxed.borrow().clone(),
            notes: not_trusted
                .into_iter()
                .chain(outage)
                .chain(clock_note)
                .chain(notes.iter().cloned())
                .collect(),
            ..Status::default()
        };
        self.waiting.describe(&mut status);
        status
    }
}
