//! Reasons of a decision, for people and as JSON.

use std::fmt;

use mpbond_units::{human, printable};
use serde::Serialize;

use crate::decide::{Decision, Origin, RuleName, Verdict, rule_name};
use crate::fact::{Certainty, Fact};
use crate::flow::{Device, Flow};
use crate::links::{Admission, LinkUse, Phase, Rank, Refusal, Unusable};
use crate::policy::Policy;
use crate::treatment::{Class, Multipath};

/// Longest value of a fact that is shown.
const MAX_SHOWN_BYTES: usize = 300;

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// Handling of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Handling {
    /// A session carries it.
    Carry,
    /// It is connected without the proxy.
    Direct,
    /// It is refused.
    Refuse,
}

/// A decision with its reasons.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Explanation<'p> {
    /// The rule that applies; null where the default does.
    pub rule: Option<RuleName<'p>>,
    /// Whether the rule's facts are known or guessed.
    pub certainty: Certainty,
    /// Handling of the flow.
    pub action: Handling,
    /// Class, where a session carries the flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// Origin of the class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class_from: Option<Origin>,
    /// Priority among the flows of the class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// Use of several paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multipath: Option<Multipath>,
    /// Whether the flow would be accepted now.
    pub admission: Admission,
    /// Facts of the flow and of the device.
    pub facts: Vec<FactLine>,
    /// Rules before it that do not apply, in their order.
    pub passed: Vec<RuleLine<'p>>,
    /// Links, where a session carries the flow.
    pub links: Vec<LinkLine>,
}

/// A fact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "Fact")
)]
pub struct FactLine {
    /// Its name, that of the condition on it.
    pub name: &'static str,
    /// Its value as text.
    pub value: Option<String>,
    /// Its certainty.
    pub certainty: Certainty,
    /// Its origin, or the reason for which it is unknown.
    pub origin: &'static str,
}

impl FactLine {
    /// The line of a fact.
    pub fn of<T: fmt::Display>(name: &'static str, fact: &Fact<T>) -> Self {
        line(name, fact)
    }
}

/// A rule that does not apply, with the first condition for which it does not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "PassedRule")
)]
pub struct RuleLine<'p> {
    /// The rule.
    #[serde(flatten)]
    pub rule: RuleName<'p>,
    /// The condition's key.
    pub condition: &'static str,
    /// Certainty of the condition's fact; where it is unknown, the rule might apply.
    pub certainty: Certainty,
}

/// A link, and its use by the flow.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "ExplainedLink")
)]
pub struct LinkLine {
    /// Its name.
    pub name: String,
    /// Its use, unless the flow may not use it.
    #[serde(rename = "use")]
    pub use_: Option<LinkUse>,
    /// Its rank among the links that the flow may use.
    pub rank: Option<Rank>,
    /// The reason for which the flow may not use it.
    pub unusable: Option<Unusable>,
    /// What is known of the link beside the policy; told by the caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
}

/// What a caller knows of a link beside the policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Measured {
    /// Round-trip time over all hops.
    pub rtt_ms: Option<f64>,
    /// Pipe-aware delay.
    pub pad_ms: Option<f64>,
    /// Bytes left of its cap.
    pub cap_left_bytes: Option<u64>,
    /// Strength of its signal.
    pub signal_dbm: Option<i16>,
    /// Whether its radio is awake, where the policy names it.
    pub radio_awake: Option<bool>,
    /// Joules of this radio since the daemon started.
    pub joules: Option<f64>,
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(rtt) = self.rtt_ms {
            write!(f, ", round-trip time {}", human::millis(rtt))?;
        }
        if let Some(pad) = self.pad_ms {
            write!(f, ", PAD {}", human::millis(pad))?;
        }
        if let Some(left) = self.cap_left_bytes {
            write!(f, ", {} of its cap left", human::bytes(left))?;
        }
        if let Some(dbm) = self.signal_dbm {
            write!(f, ", signal {dbm} dBm")?;
        }
        match self.radio_awake {
            Some(true) => f.write_str(", radio awake")?,
            Some(false) => f.write_str(", radio asleep")?,
            None => {}
        }
        match self.joules {
            Some(joules) => write!(f, ", {} J since the start", human::three_digits(joules)),
            None => Ok(()),
        }
    }
}

impl Policy {
    /// Decides about a flow as [`decide`](Self::decide) does, with the reasons.
    pub fn explain<'p>(&'p self, flow: &Flow, device: &Device) -> Explanation<'p> {
        let situation = self.situation(flow, device);
        let decision = self.decide_in(&situation);
        let end = decision.rule.map_or(self.rules.len(), |rule| rule.index);
        let passed = self.rules.iter().enumerate().take(end);
        let passed = passed.filter_map(|(index, rule)| {
            let (condition, certainty) = rule.obstacle(&situation)?;
            Some(RuleLine {
                rule: rule_name(rule, index),
                condition: condition.key(),
                certainty,
            })
        });
        let passed = passed.collect();
        let names = flow.domain.map(|names| {
            let names: Vec<_> = names.iter().map(crate::DomainName::as_str).collect();
            names.join(", ")
        });
        let facts = vec![
            line("app", &flow.app),
            line("uid", &flow.uid),
            line("cgroup", &flow.cgroup),
            line("dscp", &flow.dscp),
            line("domain", &names),
            line("ip", &flow.ip),
            line("port", &Fact::known(flow.port, "the client")),
            line("source", &flow.source),
            line("metered", &situation.metered),
            line("roaming", &situation.roaming),
            line("battery", &device.battery.map(|level| format!("{level}%"))),
            line("charging", &device.charging),
            line("time", &device.now.map(|now| self.time_text(*now))),
        ];
        let carried = match &decision.verdict {
            Verdict::Carry(carriage) => Some(carriage),
            Verdict::Direct | Verdict::Refuse => None,
        };
        Explanation {
            rule: decision.rule,
            certainty: decision.certainty,
            action: match decision.verdict {
                Verdict::Carry(_) => Handling::Carry,
                Verdict::Direct => Handling::Direct,
                Verdict::Refuse => Handling::Refuse,
            },
            class: carried.map(|carriage| carriage.class),
            class_from: carried.map(|carriage| carriage.class_from),
            priority: carried.map(|carriage| carriage.priority),
            multipath: carried.map(|carriage| carriage.multipath),
            admission: self.admit(&decision, device),
            facts,
            passed,
            links: self.link_lines(&decision, device),
        }
    }

    /// A time as the clock of the policy's zone shows it, with the zone's offset from UTC, in which
    /// it is where the policy has none. The library's own formats would be 80 kB of program.
    fn time_text(&self, at: jiff::Timestamp) -> String {
        let zone = self.zone.clone().unwrap_or(jiff::tz::TimeZone::UTC);
        let shown = at.to_zoned(zone);
        let day = usize::try_from(shown.weekday().to_monday_zero_offset()).unwrap_or_default();
        let day = DAYS.get(day).copied().unwrap_or_default();
        let (year, month, date) = (shown.year(), shown.month(), shown.day());
        let (hour, minute) = (shown.hour(), shown.minute());
        let offset = shown.offset().seconds() / 60;
        let sign = if offset < 0 { '-' } else { '+' };
        let (hours, minutes) = (offset.abs() / 60, offset.abs() % 60);
        format!(
            "{day} {year:04}-{month:02}-{date:02} {hour:02}:{minute:02} {sign}{hours:02}:{minutes:02}"
        )
    }

    fn link_lines(&self, decision: &Decision<'_>, device: &Device) -> Vec<LinkLine> {
        let Verdict::Carry(carriage) = &decision.verdict else {
            return Vec::new();
        };
        let links = device.links.iter();
        let judged: Vec<_> = links
            .map(|link| self.judge(carriage, link, Phase::New))
            .collect();
        let uses: Vec<_> = judged.iter().filter_map(|link| link.ok()).collect();
        let mut ranks = self.ranks(&uses).into_iter();
        let line = |(link, judged): (&crate::LinkState, Result<LinkUse, Unusable>)| LinkLine {
            name: printable(&link.name, MAX_SHOWN_BYTES),
            use_: judged.ok(),
            rank: judged.ok().and_then(|_| ranks.next()),
            unusable: judged.err(),
            measured: None,
        };
        device.links.iter().zip(judged).map(line).collect()
    }
}

fn line<T: fmt::Display>(name: &'static str, fact: &Fact<T>) -> FactLine {
    let value = fact
        .get()
        .map(|(value, _)| printable(&value.to_string(), MAX_SHOWN_BYTES));
    FactLine {
        name,
        value,
        certainty: fact.certainty(),
        origin: fact.origin(),
    }
}

impl fmt::Display for Explanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rule {
            Some(rule) => write!(f, "rule \"{}\" in line {}: ", rule.name, rule.line)?,
            None => f.write_str("no rule applies, the default does: ")?,
        }
        match self.action {
            Handling::Carry => f.write_str("carried by a session")?,
            Handling::Direct => f.write_str("connected without the proxy")?,
            Handling::Refuse => f.write_str("refused")?,
        }
        if self.certainty == Certainty::Guessed {
            f.write_str(" (a fact of the rule is guessed)")?;
        }
        writeln!(f)?;
        match self.admission {
            Admission::Now => {}
            Admission::Wait(delay) => {
                let delay = human::span(delay.as_secs_f64());
                writeln!(f, "  waits for a link that it may use, for {delay} at most")?;
            }
            Admission::Refused(Refusal::Rule) => {}
            Admission::Refused(Refusal::BudgetSpent) => {
                writeln!(f, "  refused: the rule's budget is used up")?;
            }
            Admission::Refused(Refusal::NoLink) => {
                writeln!(f, "  refused: it may use no link that works")?;
            }
        }
        for fact in &self.facts {
            let origin = fact.origin;
            match (&fact.value, fact.certainty) {
                (Some(value), Certainty::Guessed) => {
                    writeln!(f, "  {}: {value}, guessed from {origin}", fact.name)?;
                }
                (Some(value), _) => writeln!(f, "  {}: {value} ({origin})", fact.name)?,
                (None, _) => writeln!(f, "  {}: unknown ({origin})", fact.name)?,
            }
        }
        for RuleLine {
            rule,
            condition,
            certainty,
        } in &self.passed
        {
            let reason = match certainty {
                Certainty::Known => "does not hold",
                Certainty::Guessed => "does not hold (guessed)",
                Certainty::Unknown => "is unknown",
            };
            let RuleName { name, line, .. } = rule;
            writeln!(
                f,
                "  not rule \"{name}\" in line {line}: {condition} {reason}"
            )?;
        }
        for link in &self.links {
            let measured = link.measured.clone().unwrap_or_default();
            match (link.use_, link.rank, link.unusable) {
                (Some(used), Some(rank), _) => {
                    let LinkUse { cost, .. } = used;
                    let name = &link.name;
                    let used_when = match rank {
                        Rank { tier: 0, turn: 0 } => "used first",
                        Rank { tier: 0, .. } => "used for what cheaper links have no room for",
                        Rank { .. } => "used while no link before it works",
                    };
                    write!(f, "  link {name}: cost {cost}, {used_when}")?;
                    if used.standby {
                        f.write_str(", standby: its cap is used up")?;
                    }
                    if used.weak {
                        f.write_str(", its signal is weak")?;
                    }
                    writeln!(f, "{measured}")?;
                }
                (.., Some(reason)) => {
                    let (name, reason) = (&link.name, reason.text());
                    writeln!(f, "  link {name}: {reason}{measured}")?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// A flow that another policy would treat differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change<'o, 'n> {
    /// Index of the flow.
    pub flow: usize,
    /// Its decision now.
    pub before: Decision<'o>,
    /// Its decision with the new policy.
    pub after: Decision<'n>,
}

/// The flows for which a new policy decides differently: whose treatment or links differ. The name
/// and the line of a rule make no difference, nor does the origin of a class.
pub fn changes<'o, 'n>(
    old: &'o Policy,
    new: &'n Policy,
    flows: &[Flow],
    device: &Device,
) -> Vec<Change<'o, 'n>> {
    let differ = |(flow, facts): (usize, &Flow)| {
        let (before, after) = (old.decide(facts, device), new.decide(facts, device));
        let same = before.verdict.is_as(&after.verdict)
            && old.link_lines(&before, device) == new.link_lines(&after, device);
        (!same).then_some(Change {
            flow,
            before,
            after,
        })
    };
    flows.iter().enumerate().filter_map(differ).collect()
}
