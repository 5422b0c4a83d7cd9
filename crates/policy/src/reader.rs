//! Policies from text, whole or not at all.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use jiff::tz::TimeZone;
use mpbond_units::Size;
use toml::Spanned;

use crate::cap::{AtCap, Cap};
use crate::check;
use crate::condition::{Addresses, Apps, Cgroups, Condition, Domains, Intervals, union};
use crate::file::{ActionFile, BudgetFile, CapFile, LinkFile, PathsFile, PolicyFile, RuleFile};
use crate::file::{Delay, ResetDay, TreatmentFile, ZoneName};
use crate::policy::{LinkPolicy, Policy};
use crate::rule::{Action, Rule};
use crate::treatment::{Class, Multipath, Paths, Treatment};
use crate::value::{Name, OneOrMore, Percent, Text};
use mpbond_toml_text::{FileError, Source};

/// Maximum size of a policy file: each rule is compared with all before it.
pub const MAX_FILE_BYTES: usize = 256 << 10;

/// Maximum number of rules.
pub const MAX_RULES: usize = 2048;

/// Maximum number of links.
pub const MAX_LINKS: usize = 256;

/// Time zones by their names in the IANA database; `None` for a name that it does not have.
///
/// A daemon reads the file of this name below /usr/share/zoneinfo, for [`TimeZone::tzif`].
pub type Zones<'a> = &'a dyn Fn(&str) -> Option<TimeZone>;

impl Policy {
    /// Reads the text of a policy file; `file` is its name in errors.
    ///
    /// # Errors
    /// The first thing that is wrong: syntax, an unknown key, a value that is not allowed, a rule
    /// that cannot select a flow or contradicts itself. One line with file, line and key.
    pub fn parse(file: &Path, text: &str, zones: Zones<'_>) -> Result<Self, FileError> {
        if text.len() > MAX_FILE_BYTES {
            let problem = format_args!("longer than {MAX_FILE_BYTES} bytes");
            return Err(FileError::about_file(file, problem));
        }
        let source = Source::new(file, text);
        let parsed: PolicyFile = source.parse()?;
        Reader {
            source: &source,
            zones,
            zone: None,
        }
        .policy(parsed)
    }
}

/// Validation of a parsed file.
struct Reader<'a> {
    source: &'a Source<'a>,
    zones: Zones<'a>,
    /// The policy's zone.
    zone: Option<TimeZone>,
}

impl Reader<'_> {
    fn policy(mut self, file: PolicyFile) -> Result<Policy, FileError> {
        let PolicyFile { policy, rule, link } = file;
        if let Some(zone) = policy.zone {
            self.zone = Some(self.zone_named(&zone, "policy.zone")?);
        }
        let default_span = policy.default.as_ref().map(Spanned::span);
        let default = match policy.default {
            Some(default) => self.default_action(default)?,
            None => Action::Carry(Box::default()),
        };
        let links = self.links(link)?;
        self.limit(&rule, MAX_RULES, "rule")?;
        let mut rules: Vec<Rule> = Vec::with_capacity(rule.len());
        let mut names = BTreeMap::new();
        for rule in rule {
            let name_span = rule.get_ref().name.span();
            let rule = self.rule(rule)?;
            if let Some(line) = names.insert(rule.name.clone(), rule.place.line) {
                let problem = format!("the rule in line {line} has this name");
                return Err(self.source.wrong(name_span, "rule.name", problem));
            }
            rules.push(rule);
        }
        let policy = Policy {
            file: self.source.file.to_owned(),
            mode_place: policy
                .mode
                .as_ref()
                .map(|mode| self.source.place(mode.span().start)),
            mode: policy.mode.map(Spanned::into_inner).unwrap_or_default(),
            zone: self.zone,
            default,
            default_place: default_span.map(|span| self.source.place(span.start)),
            rules,
            links,
        };
        check::check(&policy).map_err(|wrong| {
            FileError::at(self.source.file, wrong.place, wrong.key, &wrong.problem)
        })?;
        Ok(policy)
    }

    fn limit<T>(&self, list: &[Spanned<T>], most: usize, key: &str) -> Result<(), FileError> {
        match list.get(most) {
            Some(first) => {
                let problem = format!("more than {most} sections [[{key}]]");
                Err(self.source.wrong(first.span(), key, problem))
            }
            None => Ok(()),
        }
    }

    fn zone_named(&self, name: &Spanned<Text<ZoneName>>, key: &str) -> Result<TimeZone, FileError> {
        let Text(ZoneName(text)) = name.get_ref();
        if text == "UTC" {
            return Ok(TimeZone::UTC);
        }
        (self.zones)(text).ok_or_else(|| {
            let problem = format!(
                "the time zone \"{text}\" is not known here; \
                 `timedatectl list-timezones` prints those that are"
            );
            self.source.wrong(name.span(), key, problem)
        })
    }

    fn default_action(&self, default: Spanned<ActionFile>) -> Result<Action, FileError> {
        let span = default.span();
        if let ActionFile::Carry(table) = default.get_ref()
            && let Some(budget) = &table.budget
        {
            let problem = "a budget belongs to a rule; a link has a cap";
            return Err(self
                .source
                .wrong(budget.span(), "policy.default.budget", problem));
        }
        if let ActionFile::Carry(table) = default.get_ref()
            && let Some(Text(Delay(Duration::ZERO))) = &table.delay
        {
            let problem = "no delay: leave the key out";
            return Err(self.source.wrong(span, "policy.default.delay", problem));
        }
        self.action(default.into_inner(), span, "policy.default")
    }

    fn links(
        &self,
        links: Vec<Spanned<LinkFile>>,
    ) -> Result<BTreeMap<String, LinkPolicy>, FileError> {
        self.limit(&links, MAX_LINKS, "link")?;
        let mut all: BTreeMap<String, LinkPolicy> = BTreeMap::new();
        for link in links {
            let place = self.source.place(link.span().start);
            let span = link.span();
            let LinkFile {
                name,
                cost,
                metered,
                cap,
                battery_floor,
                weak_below,
                radio,
            } = link.into_inner();
            let Text(Name(text)) = name.get_ref().clone();
            if let Some(before) = all.get(&text) {
                let problem = format!("the link in line {} has this name", before.place.line);
                return Err(self.source.wrong(name.span(), "link.name", problem));
            }
            let link = LinkPolicy {
                place,
                cost: cost.map(|Text(cost)| cost.0),
                metered,
                cap: cap.map(|cap| self.cap(cap)).transpose()?,
                battery_floor: battery_floor.map(|Text(floor)| floor.0),
                weak_below_dbm: weak_below.map(|Text(strength)| strength.0),
                radio: radio.map(|Text(radio)| radio.0),
            };
            let sets_nothing = link.cost.is_none()
                && link.metered.is_none()
                && link.cap.is_none()
                && link.battery_floor.is_none()
                && link.weak_below_dbm.is_none()
                && link.radio.is_none();
            if sets_nothing {
                let problem = "sets nothing: give it a cost, a cap or another property";
                return Err(self.source.wrong(span, "link", problem));
            }
            all.insert(text, link);
        }
        Ok(all)
    }

    fn cap(&self, cap: Spanned<CapFile>) -> Result<Cap, FileError> {
        let span = cap.span();
        let CapFile {
            bytes,
            resets,
            zone,
            warn,
            at_cap,
        } = cap.into_inner();
        if bytes == Size(0) {
            let problem = "a cap of 0 allows nothing: leave the link out of `paths`, or remove it";
            return Err(self.source.wrong(span, "link.cap", problem));
        }
        self.bytes_of(span, "link.cap", (bytes, resets, zone, warn), at_cap)
    }

    fn budget(&self, budget: Spanned<BudgetFile>) -> Result<Cap, FileError> {
        let span = budget.span();
        let BudgetFile {
            bytes,
            resets,
            zone,
            warn,
        } = budget.into_inner();
        if bytes == Size(0) {
            let problem = "a budget of 0 allows nothing: write set = \"refuse\"";
            return Err(self.source.wrong(span, "rule.set.budget", problem));
        }
        let values = (bytes, resets, zone, warn);
        self.bytes_of(span, "rule.set.budget", values, AtCap::Off)
    }

    fn bytes_of(
        &self,
        span: Range<usize>,
        key: &str,
        (Size(bytes), resets, zone, warn): CapValues,
        at_cap: AtCap,
    ) -> Result<Cap, FileError> {
        let zone = match (zone, &self.zone) {
            (Some(zone), _) => self.zone_named(&zone, &format!("{key}.zone"))?,
            (None, Some(zone)) => zone.clone(),
            (None, None) => {
                let problem = "the zone of its reset day is missing: write zone = \"UTC\" or \
                               another one here or in [policy]";
                return Err(self.source.wrong(span, key, problem));
            }
        };
        let warn_percent = warn.map(|Text(Percent(percent))| percent);
        if warn_percent == Some(0) {
            let problem = "warn = \"0%\" warns before anything is used: leave it out";
            return Err(self.source.wrong(span, key, problem));
        }
        Ok(Cap {
            bytes,
            reset_day: resets.map_or(1, |Text(ResetDay(day))| day),
            zone,
            warn_percent,
            at_cap,
        })
    }

    fn rule(&self, rule: Spanned<RuleFile>) -> Result<Rule, FileError> {
        let span = rule.span();
        let RuleFile {
            name,
            app,
            uid,
            cgroup,
            dscp,
            domain,
            ip,
            port,
            source,
            metered,
            roaming,
            battery,
            charging,
            time,
            set,
        } = rule.into_inner();
        let conditions: Vec<Condition> = [
            numbers(port, |port| port.0).map(Condition::Port),
            numbers(uid, |uid| uid.0).map(Condition::Uid),
            numbers(dscp, |dscp| dscp.0).map(Condition::Dscp),
            metered.map(|is| Condition::Metered(is.into_inner())),
            roaming.map(|is| Condition::Roaming(is.into_inner())),
            charging.map(|is| Condition::Charging(is.into_inner())),
            battery.map(|levels| {
                let Text(levels) = levels.into_inner();
                Condition::Battery(Intervals::new([levels.0]))
            }),
            list(ip).map(|nets| Condition::Ip(Addresses::new(&nets))),
            list(source).map(|nets| Condition::Source(Addresses::new(&nets))),
            list(app).map(|apps| Condition::App(Apps::new(apps))),
            list(cgroup).map(|groups| Condition::Cgroup(Cgroups::new(groups))),
            list(domain).map(|names| Condition::Domain(Domains::new(&names))),
            time.map(|windows| self.time(&windows)).transpose()?,
        ]
        .into_iter()
        .flatten()
        .collect();
        if conditions.is_empty() {
            let problem = "a rule without a condition selects every flow: write it as \
                           `default` in [policy]";
            return Err(self.source.wrong(span, "rule", problem));
        }
        let action_place = self.source.place(set.span().start);
        let set_span = set.span();
        Ok(Rule {
            name: name.into_inner().0.0,
            place: self.source.place(span.start),
            conditions,
            action: self.action(set.into_inner(), set_span, "rule.set")?,
            action_place,
        })
    }

    fn time(
        &self,
        windows: &Spanned<OneOrMore<crate::condition::Window>>,
    ) -> Result<Condition, FileError> {
        let wrong = |problem: String| self.source.wrong(windows.span(), "rule.time", problem);
        let minutes = union(&windows.get_ref().0).map_err(wrong)?;
        if self.zone.is_none() {
            let problem = "its zone is missing: write zone = \"Europe/Berlin\" in [policy]";
            return Err(wrong(problem.to_owned()));
        }
        Ok(Condition::Time(minutes))
    }

    fn action(
        &self,
        action: ActionFile,
        span: Range<usize>,
        key: &str,
    ) -> Result<Action, FileError> {
        let table = match action {
            ActionFile::Direct => return Ok(Action::Direct),
            ActionFile::Refuse => return Ok(Action::Refuse),
            ActionFile::Carry(table) => table,
        };
        if table.is_empty() {
            return Err(self.source.wrong(span, key, "an empty table sets nothing"));
        }
        let TreatmentFile {
            class,
            priority,
            paths,
            metered,
            roaming,
            multipath,
            delay,
            budget,
        } = *table;
        let several = [Multipath::Interactive, Multipath::Aggregate];
        if class == Some(Class::Realtime) && multipath.is_some_and(|m| several.contains(&m)) {
            let problem = "a realtime flow has one path at a time: write multipath = \"handover\", \
                           or leave it out";
            return Err(self.source.wrong(span, key, problem));
        }
        Ok(Action::Carry(Box::new(Treatment {
            class,
            priority: priority.map(|Text(priority)| priority.0),
            paths: paths.map(|paths| match paths {
                PathsFile::All => Paths::All,
                PathsFile::Named(names) => Paths::Named(names.into_iter().collect()),
            }),
            metered,
            roaming,
            multipath,
            delay: delay.map(|Text(delay)| delay.0),
            budget: budget.map(|budget| self.budget(budget)).transpose()?,
        })))
    }
}

/// `bytes`, `resets`, `zone` and `warn` of a cap or a budget.
type CapValues = (
    Size,
    Option<Text<ResetDay>>,
    Option<Spanned<Text<ZoneName>>>,
    Option<Text<Percent>>,
);

fn list<T>(values: Option<OneOrMore<T>>) -> Option<Vec<T>> {
    values.map(|values| values.0)
}

fn numbers<T>(values: Option<OneOrMore<T>>, bounds: fn(T) -> (u128, u128)) -> Option<Intervals> {
    list(values).map(|values| Intervals::new(values.into_iter().map(bounds)))
}
