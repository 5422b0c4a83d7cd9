//! Whether a transfer is fit, and the share of processors that it used.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mpbond_sim::world::StreamClass;

use crate::experiment::{Experiment, Role, Scheme, Workload};
use crate::player::Conditions;
use crate::record::SubflowShare;

/// Processor time divided by the transfer's time, for the busiest host of each role.
pub(crate) fn cpu_percent(
    e: &Experiment,
    cpu_s: &BTreeMap<String, f64>,
    seconds: f64,
) -> BTreeMap<Role, f64> {
    let mut all = BTreeMap::new();
    for host in &e.hosts {
        let used = cpu_s.get(host.name.get_ref()).copied().unwrap_or(0.0);
        let most: &mut f64 = all.entry(host.role).or_default();
        *most = most.max(100.0 * used / seconds);
    }
    all.remove(&Role::Origin);
    all
}

/// The reason why a transfer by `fixed-ratio` has another ratio, if it has: a subflow was lost, or
/// subflows joined in another order.
pub(crate) fn ratio_not_kept(
    e: &Experiment,
    scheme: &Scheme,
    shares: &[SubflowShare],
) -> Option<String> {
    /// Some frames' share of the smallest file that experiments use with such a scheme.
    const TOLERANCE: f64 = 0.03;
    let wanted = scheme.direct_share().filter(|_| scheme.devices > 1)?;
    let sum = |of: &dyn Fn(&&SubflowShare) -> bool| -> u64 {
        shares.iter().filter(of).map(|share| share.bytes).sum()
    };
    let is_direct = |share: &&SubflowShare| {
        let mut direct = scheme.direct_links(e);
        direct.any(|link| *link.name.get_ref() == share.name)
    };
    let kept = sum(&is_direct) as f64 / sum(&|_| true).max(1) as f64;
    ((kept - wanted).abs() > TOLERANCE)
        .then(|| format!("the direct share of the bytes was {kept:.2} instead of {wanted:.2}"))
}

/// The reason why a transfer has other classes than those that its client's sockets state, if it
/// has. `seen` are those of its connections, by the daemons.
pub(crate) fn other_classes(workload: &Workload, seen: &BTreeSet<String>) -> Option<String> {
    let stated = stated_classes(workload);
    let same = seen.iter().map(String::as_str).eq(stated.iter().copied());
    let list = |all: Vec<&str>| all.join(" and ");
    (!same).then(|| {
        format!(
            "connections were of class {} instead of {}",
            list(seen.iter().map(String::as_str).collect()),
            list(stated.into_iter().collect())
        )
    })
}

/// Classes that the client's sockets state. Messages may have one of their own; without a download
/// beside them, no connection has that of the workload then.
fn stated_classes(workload: &Workload) -> BTreeSet<&'static str> {
    let messages = workload.messages.as_ref();
    let of_messages = messages.map(|m| m.class.unwrap_or(workload.class));
    let has_others = messages.is_none_or(|m| m.bulk);
    let of_others = has_others.then_some(workload.class);
    let all = of_messages.into_iter().chain(of_others);
    all.map(StreamClass::name).collect()
}

/// Whether links that were played for a program did not keep their properties: 1 % of their packets
/// were later than 2.5 ms, or packets were lost beside them. If so, prints a warning.
pub(crate) fn told_if_late(c: &Conditions) -> bool {
    const MAX_LATENESS: Duration = Duration::from_micros(2500);
    let late = c.lateness_p99 > MAX_LATENESS || c.lost > 0;
    if late {
        eprintln!(
            "mpbond: this machine was too busy for the links: 1 % of packets were late by more \
             than {:.1} ms, {} were lost beside them",
            c.lateness_p99.as_secs_f64() * 1e3,
            c.lost
        );
    }
    late
}

/// The reasons why the links did not keep the experiment's properties, if they did not.
pub(crate) fn links_not_kept(c: &Conditions, lost: u64, max_lateness: Duration) -> Option<String> {
    let late = (c.lateness_p99 > max_lateness).then(|| {
        format!(
            "links were late: 1 % of packets by more than {:.1} ms (at most {:.1} ms is fit)",
            c.lateness_p99.as_secs_f64() * 1e3,
            max_lateness.as_secs_f64() * 1e3
        )
    });
    let lost = lost + c.lost;
    let lost = (lost > 0).then(|| format!("{lost} packets were lost between hosts and links"));
    all_of([late, lost])
}

/// All of several reasons as one text, if there are any.
pub(crate) fn all_of(reasons: impl IntoIterator<Item = Option<String>>) -> Option<String> {
    let all: Vec<String> = reasons.into_iter().flatten().collect();
    (!all.is_empty()).then(|| all.join("; "))
}

#[cfg(test)]
mod tests {
    use mpbond_sim::world::SchedulerKind;

    use super::*;

    fn experiment() -> Experiment {
        let mut text = String::from("name = \"t\"\n");
        for (name, role) in [
            ("watch", "primary"),
            ("phone", "helper"),
            ("tablet", "helper"),
            ("proxy", "proxy"),
            ("origin", "origin"),
        ] {
            text += &format!("[[host]]\nname = \"{name}\"\nrole = \"{role}\"\n");
            text += "address = \"198.51.100.1\"\n";
        }
        for (name, from, to) in [
            ("lte", "watch", "proxy"),
            ("p1", "watch", "phone"),
            ("h1", "phone", "proxy"),
            ("p2", "watch", "tablet"),
            ("h2", "tablet", "proxy"),
        ] {
            text += &format!("[[link]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\n");
            text += "down = 1\nup = 1\n";
        }
        text += "[[link]]\nname = \"core\"\nfrom = \"proxy\"\nto = \"origin\"\n\
                 [[scheme]]\nname = \"s\"\nscheme = \"mpbond\"\ndevices = 2\n\
                 interception = \"socks5\"\nscheduler = \"fixed-ratio=0.3\"\n\
                 [[workload]]\nname = \"w\"\ndirection = \"down\"\nbytes = 1\n";
        Experiment::parse("t.toml", &text).unwrap()
    }

    #[test]
    fn a_ratio_is_kept_or_not() {
        let e = experiment();
        let of = |lte, phone| {
            let share = |name: &str, bytes| SubflowShare {
                name: name.to_owned(),
                bytes,
                finished_s: None,
            };
            let shares = [share("lte", lte), share("phone", phone)];
            ratio_not_kept(&e, &e.schemes[0], &shares)
        };
        assert_eq!(of(300, 700), None);
        assert_eq!(of(320, 680), None);
        // They joined in the other order.
        let why = of(700, 300).unwrap();
        assert!(why.contains("was 0.70 instead of 0.30"), "{why}");
        assert!(of(0, 0).is_some());
        let ours = Scheme {
            scheduler: SchedulerKind::Mpbond,
            ..e.schemes[0].clone()
        };
        assert_eq!(ratio_not_kept(&e, &ours, &[]), None);
    }

    #[test]
    fn links_that_were_late_and_lost_packets_have_both_reasons() {
        let why = |late_ms, lost| {
            let conditions = Conditions {
                lateness_p99: Duration::from_millis(late_ms),
                lost,
                ..Conditions::default()
            };
            links_not_kept(&conditions, 2, Duration::from_millis(3))
        };
        let late = "links were late: 1 % of packets by more than 4.0 ms (at most 3.0 ms is fit)";
        let lost = "7 packets were lost between hosts and links";
        assert_eq!(why(3, 5).as_deref(), Some(lost));
        assert_eq!(why(4, 5), Some(format!("{late}; {lost}")));
        let none = links_not_kept(&Conditions::default(), 0, Duration::from_millis(3));
        assert_eq!(none, None);
    }

    #[test]
    fn classes_are_those_that_the_client_states() {
        let of = |what: &str, seen: &[&str]| {
            let text = format!("name = \"w\"\ndirection = \"down\"\n{what}");
            let workload: Workload = toml::from_str(&text).unwrap();
            other_classes(&workload, &seen.iter().map(|c| (*c).to_owned()).collect())
        };
        let messages = |more: &str| {
            format!("messages = {{ bytes = 1, every = \"1s\", length = \"9s\"{more} }}")
        };
        let background = "class = \"background\"\n";
        let realtime = ", class = \"realtime\"";
        for (what, stated) in [
            ("bytes = 1".to_owned(), &["bulk"][..]),
            (format!("{background}bytes = 1"), &["background"]),
            (messages(""), &["bulk"]),
            (messages(realtime), &["bulk", "realtime"]),
            (
                messages(&format!("{realtime}, bulk = false")),
                &["realtime"],
            ),
            (background.to_owned() + &messages(""), &["background"]),
            (
                background.to_owned() + &messages(realtime),
                &["background", "realtime"],
            ),
            (
                background.to_owned() + &messages(&format!("{realtime}, bulk = false")),
                &["realtime"],
            ),
        ] {
            for seen in [
                &["bulk"][..],
                &["background"],
                &["realtime"],
                &["bulk", "realtime"],
                &["background", "bulk"],
                &["background", "realtime"],
                &[],
            ] {
                assert_eq!(
                    of(&what, seen).is_none(),
                    seen == stated,
                    "{what}: {seen:?}"
                );
            }
        }
        let why = of(&messages(realtime), &["background", "bulk"]).unwrap();
        let text = "connections were of class background and bulk instead of bulk and realtime";
        assert_eq!(why, text);
    }

    #[test]
    fn processor_time_is_that_of_the_busiest_in_a_role() {
        let used = [("watch", 0.5), ("phone", 0.1), ("tablet", 0.2)];
        let used = used.map(|(host, s)| (host.to_owned(), s)).into();
        let percent = cpu_percent(&experiment(), &used, 10.0);
        let want = [
            (Role::Primary, 5.0),
            (Role::Helper, 2.0),
            (Role::Proxy, 0.0),
        ];
        assert_eq!(percent, want.into());
    }
}
