//! The policy in force, with the number of flows that each rule has selected.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mpbond_policy::{
    Admission, Cap, Carriage, Class, Decision, Device, Flow, LinkState, Mode, Multipath, Origin,
    Paths, Permission, Phase, Policy, Supply, Unusable, Verdict,
};
use mpbond_price::Radio;

use super::facts::claim;
use crate::status::RuleStatus;

/// Time for which an intercepted connection waits for its name, where a rule may give it a class:
/// clients send a ClientHello as soon as they are connected.
const WAIT_FOR_CLASS: Duration = Duration::from_millis(100);

/// The same where a rule may refuse it or connect it without the proxy. A segment that is lost is
/// sent again after 200 ms (Linux), and after 400 ms more.
const WAIT_FOR_NAME: Duration = Duration::from_secs(1);

/// Keys of the facts of a client's socket.
const OF_SOCKETS: [&str; 4] = ["app", "uid", "cgroup", "dscp"];

/// A policy in force.
pub struct InForce {
    policy: Arc<Policy>,
    /// Number of flows by index of the rule.
    flows: Vec<Cell<u64>>,
    /// Number of those that none has selected.
    others: Cell<u64>,
    depends_on_cgroups: bool,
    depends_on_batteries: bool,
}

impl InForce {
    /// Puts a policy in force. Rules keep their numbers of flows by their names.
    pub fn new(policy: Arc<Policy>, before: Option<&Self>) -> Self {
        let others = before.map_or(0, |before| before.others.get());
        let before: HashMap<&str, u64> = before.map_or_else(HashMap::new, |before| {
            before
                .counts()
                .map(|(name, _, flows)| (name, flows))
                .collect()
        });
        let count = |(name, _)| Cell::new(before.get(name).copied().unwrap_or_default());
        Self {
            flows: policy.rules().map(count).collect(),
            depends_on_cgroups: policy.depends_on_cgroups(),
            depends_on_batteries: policy.depends_on_batteries(),
            others: Cell::new(others),
            policy,
        }
    }

    /// Whether a rule needs the control group of a flow.
    pub const fn depends_on_cgroups(&self) -> bool {
        self.depends_on_cgroups
    }

    /// Whether a rule needs the charge of this device's batteries.
    pub const fn depends_on_batteries(&self) -> bool {
        self.depends_on_batteries
    }

    /// Names of the links that carry data only while no other one works.
    pub fn behind<'a>(&self, links: &'a [LinkState]) -> Vec<&'a str> {
        self.policy.behind(links)
    }

    /// Step of a link's cost: those of a lower one that have room are preferred.
    pub fn cost(&self, link: &str, links: &[LinkState]) -> u8 {
        let turns = self.policy.turns(links);
        let turn = turns.iter().find(|(name, _)| *name == link);
        turn.map_or(0, |(_, turn)| u8::try_from(*turn).unwrap_or(u8::MAX))
    }

    /// Cap of a link, if the policy has one.
    pub fn cap(&self, link: &str) -> Option<&Cap> {
        self.policy.link(link)?.cap.as_ref()
    }

    /// Names and budgets of the rules that have one.
    pub fn budgets(&self) -> impl Iterator<Item = (&str, &Cap)> {
        self.policy.budgets()
    }

    /// Budget of a rule, by its index.
    pub fn budget(&self, rule: Option<usize>) -> Option<&Cap> {
        self.carriage(rule)?.budget
    }

    /// Level in percent of the battery of a link's device, below which the link is not used.
    pub fn battery_floor(&self, link: &str) -> Option<u8> {
        self.policy.link(link)?.battery_floor
    }

    /// Whether a link is metered, if the policy states it.
    pub fn metered(&self, link: &str) -> Option<bool> {
        self.policy.link(link)?.metered
    }

    /// Strength of the signal of a link in dBm, below which costlier links are used beside it. Only
    /// mode `saver` has an effect for it.
    pub fn weak_below_dbm(&self, link: &str) -> Option<i16> {
        let threshold = self.policy.link(link)?.weak_below_dbm;
        threshold.filter(|_| self.policy.mode == Mode::Saver)
    }

    /// Whether a link has such a threshold, in this mode.
    pub fn has_thresholds(&self) -> bool {
        self.policy.mode == Mode::Saver && self.policy.has_thresholds()
    }

    /// Whether a link has a cap or a floor, or a rule a budget.
    pub fn has_limits(&self) -> bool {
        self.policy.has_limits() || self.policy.budgets().next().is_some()
    }

    /// Radio of a link, if the policy names one.
    pub fn radio(&self, link: &str) -> Option<&'static Radio> {
        self.policy.radio(link)
    }

    /// Whether the policy names radios, so that energy has a price.
    pub fn has_radios(&self) -> bool {
        self.policy.has_radios()
    }

    /// Whether the price of energy depends on batteries.
    pub fn price_follows_batteries(&self) -> bool {
        self.has_radios() && self.policy.mode == Mode::Auto
    }

    /// Joules of a helper's radio, or of own ones, that a second is worth, if the policy names
    /// radios.
    pub fn joules_per_second(&self, own: Supply, helper: Supply) -> Option<f64> {
        let mode = self.policy.mode.energy(own, helper);
        self.has_radios().then(|| mode.joules_per_second())
    }

    /// Decides about a flow.
    pub fn decide(&self, flow: &Flow, device: &Device) -> Decision<'_> {
        self.policy.decide(flow, device)
    }

    /// Time for which a flow is worth waiting for its name, if a rule before the one that selects
    /// it depends on that.
    pub fn wait_for_name(&self, flow: &Flow, device: &Device) -> Option<Duration> {
        let undecided = self.policy.undecided(flow, device, &["domain"]);
        let waits = undecided.iter().map(|decision| match decision.verdict {
            Verdict::Carry(_) => WAIT_FOR_CLASS,
            Verdict::Direct | Verdict::Refuse => WAIT_FOR_NAME,
        });
        waits.max()
    }

    /// The decision of the first rule before the one that selects a flow which might refuse it, if
    /// its socket were known.
    pub fn refused_by_socket(&self, flow: &Flow, device: &Device) -> Option<Decision<'_>> {
        let undecided = self.policy.undecided(flow, device, &OF_SOCKETS);
        let mut undecided = undecided.into_iter();
        undecided.find(|decision| decision.verdict == Verdict::Refuse)
    }

    /// Class of the flows of a rule, by its index, or of the default, with this claim; and its
    /// origin. `None` if they are not carried.
    pub fn class(&self, rule: Option<usize>, claimed: Option<Class>) -> Option<(Class, Origin)> {
        match self.policy.outcome(rule, claim(claimed)) {
            Verdict::Carry(carriage) => Some((carriage.class, carriage.class_from)),
            Verdict::Direct | Verdict::Refuse => None,
        }
    }

    /// Whether flows of a rule, by its index, or of the default may be excluded from links.
    pub fn restricts(&self, rule: Option<usize>) -> bool {
        self.carriage(rule).is_some_and(|carriage| {
            *carriage.paths != Paths::All
                || carriage.metered == Permission::Never
                || carriage.roaming == Permission::Never
        })
    }

    /// Use of several paths by flows of a rule, with this claim.
    pub fn multipath(&self, rule: Option<usize>, claimed: Option<Class>) -> Multipath {
        match self.policy.outcome(rule, claim(claimed)) {
            Verdict::Carry(carriage) => carriage.multipath,
            Verdict::Direct | Verdict::Refuse => Multipath::Aggregate,
        }
    }

    /// Time for which new flows of a rule wait for a path, or those of the class background for a
    /// radio that is awake.
    pub fn delay(&self, rule: Option<usize>) -> Duration {
        self.carriage(rule)
            .map_or(Duration::ZERO, |carriage| carriage.delay)
    }

    /// Whether a new flow of a rule is accepted on this device.
    pub fn admit(&self, rule: Option<usize>, device: &Device) -> Admission {
        let decision = self.policy.decision_of(rule, claim(None));
        self.policy.admit(&decision, device)
    }

    /// The reason for which a flow of a rule of that policy may not use a link.
    pub fn unusable(
        &self,
        of: &Self,
        rule: Option<usize>,
        link: &LinkState,
        phase: Phase,
    ) -> Option<Unusable> {
        let Some(carriage) = of.carriage(rule) else {
            return Some(Unusable::NotAllowed);
        };
        self.policy.judge(&carriage, link, phase).err()
    }

    /// The same of a flow that no rule concerns.
    pub fn unusable_by_any(&self, link: &LinkState, phase: Phase) -> Option<Unusable> {
        let carriage = Carriage::UNRESTRICTED;
        self.policy.judge(&carriage, link, phase).err()
    }

    /// Priority of the flows of a rule.
    pub fn priority(&self, rule: Option<usize>) -> u8 {
        self.carriage(rule).map_or(0, |carriage| carriage.priority)
    }

    fn carriage(&self, rule: Option<usize>) -> Option<Carriage<'_>> {
        match self.policy.outcome(rule, claim(None)) {
            Verdict::Carry(carriage) => Some(carriage),
            Verdict::Direct | Verdict::Refuse => None,
        }
    }

    /// Name of a rule.
    pub fn name(&self, rule: usize) -> Option<&str> {
        self.policy.rules().nth(rule).map(|(name, _)| name)
    }

    /// Line at which a rule begins.
    pub fn line(&self, rule: usize) -> Option<usize> {
        self.policy.rules().nth(rule).map(|(_, line)| line)
    }

    /// Counts a flow of a rule, or of the default.
    pub fn count(&self, rule: Option<usize>) {
        let flows = match rule {
            Some(index) => self.flows.get(index),
            None => Some(&self.others),
        };
        if let Some(flows) = flows {
            flows.update(|n| n + 1);
        }
    }

    /// Number of flows that no rule has selected.
    pub const fn others(&self) -> u64 {
        self.others.get()
    }

    fn counts(&self) -> impl Iterator<Item = (&str, usize, u64)> {
        let rules = self.policy.rules().zip(&self.flows);
        rules.map(|((name, line), flows)| (name, line, flows.get()))
    }

    /// The rules, for a status.
    pub fn status(&self) -> Vec<RuleStatus> {
        let status = |(name, line, flows): (&str, usize, u64)| RuleStatus {
            name: name.to_owned(),
            line,
            flows_total: flows,
        };
        self.counts().map(status).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use mpbond_policy::Fact;

    use super::*;
    use crate::policy::{Reading, device};

    fn policy(names: &[&str]) -> Arc<Policy> {
        let rule = |(name, port)| {
            format!("[[rule]]\nname = \"{name}\"\nport = {port}\nset = \"refuse\"\n")
        };
        let text: String = names.iter().zip(1..).map(rule).collect();
        let policy = Policy::parse(Path::new("policy.toml"), &text, &|_| None);
        Arc::new(policy.unwrap())
    }

    #[test]
    fn thresholds_of_signals_are_those_of_mode_saver() {
        let thresholds = |mode: &str| {
            let text = format!(
                "[policy]\n{mode}\n[[link]]\nname = \"wifi\"\ncost = 1\nweak_below = \"-60 dBm\"\n"
            );
            let policy = Policy::parse(Path::new("policy.toml"), &text, &|_| None).unwrap();
            let policy = InForce::new(Arc::new(policy), None);
            let of = |link| policy.weak_below_dbm(link);
            (policy.has_thresholds(), of("wifi"), of("phone"))
        };
        assert_eq!(thresholds("mode = \"saver\""), (true, Some(-60), None));
        for other in [
            "mode = \"balanced\"",
            "mode = \"fastest\"",
            "zone = \"UTC\"",
        ] {
            assert_eq!(thresholds(other), (false, None, None), "{other}");
        }
    }

    /// A connection of another host: the owner of its socket is unknown.
    fn stranger(port: u16) -> Flow {
        let unknown = "another host";
        Flow {
            app: Fact::unknown(unknown),
            uid: Fact::unknown(unknown),
            cgroup: Fact::unknown(unknown),
            dscp: Fact::unknown(unknown),
            domain: Fact::unknown("an address"),
            ip: Fact::known([192, 0, 2, 1].into(), "the client"),
            port,
            source: Fact::known([203, 0, 113, 1].into(), "the kernel"),
            claim: claim(None),
        }
    }

    fn in_force(rules: &str) -> InForce {
        let policy = Policy::parse(Path::new("policy.toml"), rules, &|_| None);
        InForce::new(Arc::new(policy.unwrap()), None)
    }

    #[test]
    fn only_a_rule_on_the_name_that_might_select_a_connection_is_waited_for() {
        let rule =
            |n, conditions, set| format!("[[rule]]\nname = \"{n}\"\n{conditions}\nset = {set}\n");
        let class = "{ class = \"background\" }";
        let uid = rule(1, "uid = 7", "\"refuse\"");
        let named = "domain = \"a.example\"\nport = 443";
        let wait = |rules: &str, port| {
            in_force(rules).wait_for_name(&stranger(port), &device(Reading::default(), Vec::new()))
        };
        for (set, time) in [
            (class, WAIT_FOR_CLASS),
            ("\"refuse\"", WAIT_FOR_NAME),
            ("\"direct\"", WAIT_FOR_NAME),
        ] {
            let rules = uid.clone() + &rule(2, named, set);
            assert_eq!(wait(&rules, 443), Some(time), "{set}");
            assert_eq!(wait(&rules, 22), None, "{set}");
        }
        assert_eq!(wait(&uid, 443), None);
        let both = rule(1, named, class) + &rule(2, "domain = \"b.example\"", "\"refuse\"");
        assert_eq!(wait(&both, 443), Some(WAIT_FOR_NAME));
        let behind = rule(1, "port = 443", class) + &rule(2, "domain = \"b\"", "\"refuse\"");
        assert_eq!(wait(&behind, 443), None, "the first rule selects it");
    }

    #[test]
    fn a_rule_that_might_refuse_a_socket_is_found_before_the_one_that_selects() {
        let rules = in_force(
            "[[rule]]\nname = \"a\"\nuid = 1\nset = \"direct\"\n\
             [[rule]]\nname = \"b\"\ndomain = \"b.example\"\nset = \"refuse\"\n\
             [[rule]]\nname = \"c\"\ncgroup = \"/c\"\nport = 80\nset = \"refuse\"\n\
             [[rule]]\nname = \"d\"\nport = 81\nset = \"direct\"\n\
             [[rule]]\nname = \"e\"\ndscp = 1\nset = \"refuse\"\n",
        );
        let refused = |port| {
            let found =
                rules.refused_by_socket(&stranger(port), &device(Reading::default(), Vec::new()));
            found
                .and_then(|decision| decision.rule)
                .map(|rule| rule.name)
        };
        assert_eq!([80, 81, 82].map(refused), [Some("c"), None, Some("e")]);
    }

    #[test]
    fn a_rule_keeps_its_number_of_flows_when_others_change() {
        let first = InForce::new(policy(&["a", "b"]), None);
        first.flows[0].set(3);
        first.flows[1].set(5);
        let next = InForce::new(policy(&["c", "a"]), Some(&first));
        let counts: Vec<_> = next.counts().collect();
        assert_eq!(counts, [("c", 1, 0), ("a", 5, 3)]);
    }
}
