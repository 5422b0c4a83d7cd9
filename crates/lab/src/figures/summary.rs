//! Statistics over repetitions, and judgement of asserts.

use std::collections::BTreeMap;

use crate::experiment::{Assert, Experiment};
use crate::figures::paired::{Kind, differences, fit_of, ratios};
use crate::figures::quantity::Quantity;
use crate::figures::statistics::estimate;
use crate::record::{EnergySummary, Estimate, Judgement, Summary, Transfer};

/// A summary for every workload and scheme that has run.
pub(crate) fn summaries(e: &Experiment, transfers: &[Transfer]) -> Vec<Summary> {
    let mut all = Vec::new();
    for workload in &e.workloads {
        for scheme in &e.schemes {
            let (workload, scheme) = (workload.name.get_ref(), scheme.name.get_ref());
            let of_both = |d: &&Transfer| d.workload == *workload && d.name == *scheme;
            let mine: Vec<&Transfer> = transfers.iter().filter(of_both).collect();
            let fit: Vec<&Transfer> = mine.iter().copied().filter(|d| d.fit).collect();
            if mine.is_empty() {
                continue;
            }
            let over = |figure: &dyn Fn(&Transfer) -> Option<f64>| {
                estimate(fit.iter().filter_map(|d| figure(d)))
            };
            all.push(Summary {
                workload: workload.clone(),
                scheme: scheme.clone(),
                fit: fit.len(),
                unfit: mine.iter().filter(|d| d.is_unfit()).count(),
                disturbed: mine.iter().filter(|d| d.is_disturbed()).count(),
                seconds: over(&|d| Some(d.seconds)),
                ratio: over(&|d| Some(d.ratio)),
                redundant_share: over(&|d| Some(d.redundant_bytes? as f64 / d.bytes as f64)),
                finish_spread_s: over(&Transfer::finish_spread_s),
                finish_spread_share: over(&|d| Some(d.finish_spread_s()? / d.seconds)),
                longest_stall_s: over(&|d| Some(d.longest_stall_s)),
                energy: energy(e, &fit),
                noticed: noticed(&fit),
            });
        }
    }
    all
}

fn noticed(fit: &[&Transfer]) -> BTreeMap<Quantity, Estimate> {
    let of = |quantity: Quantity| {
        let values = fit.iter().filter_map(|d| d.noticed.get(&quantity).copied());
        Some((quantity, estimate(values)?))
    };
    Quantity::ALL.into_iter().filter_map(of).collect()
}

fn energy(e: &Experiment, fit: &[&Transfer]) -> Vec<EnergySummary> {
    let models = e.energy.iter().map(|model| model.name.get_ref());
    models
        .map(|model| {
            let accounts = fit.iter().flat_map(|d| &d.energy);
            let accounts = accounts.filter(|energy| energy.model == *model);
            EnergySummary {
                model: model.clone(),
                joules: estimate(accounts.clone().map(|a| a.joules)),
                joules_without_last_tail: estimate(accounts.map(|a| a.joules_without_last_tail)),
            }
        })
        .collect()
}

/// Judges every assert, for every scheme and workload that it applies to.
pub(crate) fn judge(
    e: &Experiment,
    transfers: &[Transfer],
    summaries: &[Summary],
) -> Vec<Judgement> {
    let mut all = Vec::new();
    for assert in &e.asserts {
        let concerned: Vec<&Summary> = summaries
            .iter()
            .filter(|summary| concerns(e, assert, summary))
            .collect();
        for summary in &concerned {
            judge_one(assert, summary, transfers, &mut all);
            more(e, assert, summary, transfers, &mut all);
            if !assert.on_average {
                bounded(e, assert, &[summary], transfers, &mut all);
            }
        }
        if assert.on_average {
            for scheme in e.schemes.iter().map(|s| s.name.get_ref()) {
                let of_it = |s: &&&Summary| s.scheme == *scheme;
                let of_it: Vec<&Summary> = concerned.iter().filter(of_it).copied().collect();
                bounded(e, assert, &of_it, transfers, &mut all);
            }
        }
    }
    all
}

/// Judges the bounds of `quantity` over `summaries` of one scheme, on average where there are
/// several. Workloads without a fit transfer are left out of the average, and counted; there is no
/// average when they are half of all or more.
fn bounded(
    e: &Experiment,
    a: &Assert,
    summaries: &[&Summary],
    transfers: &[Transfer],
    all: &mut Vec<Judgement>,
) {
    let (Some(quantity), Some(first)) = (&a.quantity, summaries.first()) else {
        return;
    };
    let quantity = *quantity.get_ref();
    let model = a.model.as_ref().map(|name| name.get_ref().as_str());
    let each: Vec<Estimate> = summaries
        .iter()
        .filter_map(|s| match (versus(e, a, s), versus_name(a)) {
            // The run does not have what it is compared with.
            (None, Some(_)) => None,
            (other, _) => measured(s, quantity, model, other, transfers),
        })
        .collect();
    let (figure, interval) = match (each.as_slice(), summaries.len()) {
        ([one], 1) => (Some(one.median), one.interval),
        (some, all) if 2 * some.len() > all => (geometric_mean(some), None),
        _ => (None, None),
    };
    let of = versus_name(a).map_or(String::new(), |other| format!(" over that of \"{other}\""));
    let workload = match summaries {
        [one] => one.workload.clone(),
        all if all.len() == each.len() => format!("on average over {}", all.len()),
        all => format!("on average over {} of {}", each.len(), all.len()),
    };
    for (words, target, below) in [
        ("at most", a.at_most, true),
        ("at least", a.at_least, false),
    ] {
        let Some(target) = target else { continue };
        let (figure, interval, words) = match (a.in_every_run, summaries) {
            (true, [one]) => {
                let other = versus(e, a, one);
                let is_judged = other.is_some() || versus_name(a).is_none();
                let all = values(one, quantity, model, other, transfers).into_iter();
                let extreme = all.reduce(if below { f64::max } else { f64::min });
                let words = format!("in every run {words}");
                (extreme.filter(|_| is_judged), None, words)
            }
            _ => (figure, interval, words.to_owned()),
        };
        let holds = |f: f64| if below { f <= target } else { f >= target };
        all.push(Judgement {
            workload: workload.clone(),
            scheme: first.scheme.clone(),
            what: format!("{}{of} {words}", quantity.axis()),
            target,
            measured: figure.filter(|f| f.is_finite()),
            interval,
            holds: figure.map(holds),
        });
    }
}

/// The kind of transfers that an assert compares those of `s` with.
fn versus<'d>(e: &'d Experiment, a: &'d Assert, s: &'d Summary) -> Option<Kind<'d>> {
    if let Some(scheme) = &a.versus {
        return Some((scheme.get_ref(), &s.workload));
    }
    let called = a.versus_workload.as_ref()?.get_ref();
    let own = e.workloads.iter().find(|w| *w.name.get_ref() == s.workload);
    let setting = own?.setting_name();
    let mut all = e.workloads.iter();
    let other = all.find(|w| w.is_called(called) && w.setting_name() == setting)?;
    Some((&s.scheme, other.name.get_ref()))
}

/// The scheme or workload that an assert compares with, as the file names it.
fn versus_name(a: &Assert) -> Option<&str> {
    let name = a.versus.as_ref().or(a.versus_workload.as_ref());
    name.map(|name| name.get_ref().as_str())
}

/// Judges how much more of `quantity` a scheme and workload have than others.
fn more(e: &Experiment, a: &Assert, s: &Summary, transfers: &[Transfer], all: &mut Vec<Judgement>) {
    let (Some(target), Some(quantity), Some(other)) = (a.more_at_most, &a.quantity, versus_name(a))
    else {
        return;
    };
    let quantity = *quantity.get_ref();
    let model = a.model.as_ref().map(|name| name.get_ref().as_str());
    let kinds = versus(e, a, s).map(|other| ((s.scheme.as_str(), s.workload.as_str()), other));
    let more = |kinds| estimate(differences(transfers, kinds, quantity, model));
    let got = kinds.and_then(more);
    all.push(Judgement {
        workload: s.workload.clone(),
        scheme: s.scheme.clone(),
        what: format!("{} more than \"{other}\", at most", quantity.axis()),
        target,
        measured: got.map(|e| e.median),
        interval: got.and_then(|e| e.interval),
        holds: got.map(|e| e.median <= target),
    });
}

/// The quantity of a scheme and workload, or its ratio to that of others within repetitions.
fn measured(
    s: &Summary,
    quantity: Quantity,
    model: Option<&str>,
    versus: Option<Kind<'_>>,
    transfers: &[Transfer],
) -> Option<Estimate> {
    estimate(values(s, quantity, model, versus, transfers))
}

/// The values of all repetitions.
fn values(
    s: &Summary,
    quantity: Quantity,
    model: Option<&str>,
    versus: Option<Kind<'_>>,
    transfers: &[Transfer],
) -> Vec<f64> {
    let (scheme, workload) = (s.scheme.as_str(), s.workload.as_str());
    match versus {
        Some(other) => {
            let kinds = ((scheme, workload), other);
            ratios(transfers, kinds, quantity, model).collect()
        }
        None => {
            let own = fit_of(transfers, scheme, workload);
            own.filter_map(|d| quantity.of(d, model)).collect()
        }
    }
}

/// `None` where a value is 0 or less, and has no logarithm.
fn geometric_mean(all: &[Estimate]) -> Option<f64> {
    let logs: f64 = all.iter().map(|e| e.median.ln()).sum();
    let have_logs = all.iter().all(|e| e.median > 0.0);
    have_logs.then(|| (logs / all.len() as f64).exp())
}

fn concerns(e: &Experiment, a: &Assert, s: &Summary) -> bool {
    let mut workloads = e.workloads.iter();
    let Some(workload) = workloads.find(|w| *w.name.get_ref() == s.workload) else {
        return false;
    };
    let scheme = a.scheme.as_ref();
    let setting = a.setting.as_ref().map(|name| name.get_ref().as_str());
    scheme.is_none_or(|name| *name.get_ref() == s.scheme)
        && setting.is_none_or(|name| workload.setting_name() == Some(name))
        && (a.workload.as_ref()).is_none_or(|name| workload.is_called(name.get_ref()))
        && (a.versus_workload.as_ref()).is_none_or(|name| !workload.is_called(name.get_ref()))
}

fn judge_one(a: &Assert, s: &Summary, transfers: &[Transfer], all: &mut Vec<Judgement>) {
    let mut push = |what: String, target: f64, got: Option<Estimate>, holds: Option<bool>| {
        all.push(Judgement {
            workload: s.workload.clone(),
            scheme: s.scheme.clone(),
            what,
            target,
            measured: got.map(|e| e.median),
            interval: got.and_then(|e| e.interval),
            holds,
        });
    };
    let bounds = [
        ("ratio to ideal", a.max_ratio, s.ratio),
        ("seconds", a.max_seconds, s.seconds),
        ("redundant share", a.max_redundant_share, s.redundant_share),
        (
            "finish spread (s)",
            a.max_finish_spread_s,
            s.finish_spread_s,
        ),
        (
            "finish spread (share)",
            a.max_finish_spread_share,
            s.finish_spread_share,
        ),
        ("longest stall (s)", a.max_stall_s, s.longest_stall_s),
    ];
    for (what, target, got) in bounds {
        let Some(target) = target else { continue };
        let holds = got.map(|e| e.median <= target);
        push(format!("{what} at most"), target, got, holds);
    }
    if let Some(target) = a.min_finish_spread_s {
        let got = s.finish_spread_s;
        let holds = got.map(|e| e.median >= target);
        push("finish spread (s) at least".to_owned(), target, got, holds);
    }
    if let Some(other) = &a.not_slower_than {
        let other = other.get_ref();
        let kind = Some((other.as_str(), s.workload.as_str()));
        let got = measured(s, Quantity::Seconds, None, kind, transfers);
        // Of two equal medians, one is above the other half of the time; so the interval has to
        // show it.
        let holds = got.map(|e| e.interval.map_or(e.median, |(low, _)| low) <= 1.0);
        push(
            format!("seconds over those of \"{other}\", at most"),
            1.0,
            got,
            holds,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_average_of_ratios_needs_all_of_them_above_zero() {
        let of = |medians: &[f64]| {
            let estimates = medians.iter().map(|median| Estimate {
                median: *median,
                interval: None,
                mean: *median,
                standard_deviation: None,
                mean_interval: None,
            });
            geometric_mean(&estimates.collect::<Vec<_>>())
        };
        assert!((of(&[1.0, 4.0]).unwrap() - 2.0).abs() < 1e-9);
        assert_eq!(of(&[0.0, 4.0]), None);
        assert_eq!(of(&[-1.0, 4.0]), None);
    }

    fn summary() -> Summary {
        Summary {
            workload: "w".into(),
            scheme: "a".into(),
            fit: 1,
            unfit: 0,
            disturbed: 0,
            seconds: None,
            ratio: None,
            redundant_share: None,
            finish_spread_s: None,
            finish_spread_share: None,
            longest_stall_s: None,
            energy: Vec::new(),
            noticed: BTreeMap::default(),
        }
    }

    /// An experiment with the workloads "beside", "alone" and "bulk" in three settings.
    fn experiment() -> Experiment {
        let folder = env!("CARGO_MANIFEST_DIR");
        let file = format!("{folder}/../../experiments/mpbond/messages-settings.toml");
        Experiment::load(std::path::Path::new(&file)).unwrap()
    }

    #[test]
    fn a_workload_is_compared_with_another_one_of_its_scheme_and_setting() {
        let mut e = experiment();
        let assert = "scheme = 'path and helper'\nversus_workload = 'alone'\n\
                      setting = '4/30/3'\nquantity = 'seconds'\nmore_at_most = 0.5\nat_most = 2.0";
        e.asserts = vec![toml::from_str(assert).unwrap()];
        let mut all = Vec::new();
        let mut add = |scheme: &str, workload: &str, repetition, seconds| {
            let mut d = Transfer::for_test(scheme, repetition, seconds);
            d.workload = workload.into();
            all.push(d);
        };
        for (r, (beside, alone)) in (0..).zip([(1.5, 1.0), (9.0, 3.0), (2.25, 2.0)]) {
            add("path and helper", "beside, 4/30/3", r, beside);
            add("path and helper", "alone, 4/30/3", r, alone);
            // Of another setting, and of another scheme.
            add("path and helper", "alone, 8/10/5", r, 0.1);
            add("helper only", "alone, 4/30/3", r, 0.1);
        }
        let judged = judge(&e, &all, &summaries(&e, &all));
        let got: Vec<_> = (judged.iter())
            .map(|j| (j.workload.as_str(), j.what.as_str(), j.measured, j.holds))
            .collect();
        let more = "time (s) more than \"alone\", at most";
        let ratio = "time (s) over that of \"alone\" at most";
        let beside = "beside, 4/30/3";
        assert_eq!(
            got,
            [
                (beside, more, Some(0.5), Some(true)),
                (beside, ratio, Some(1.5), Some(true)),
            ]
        );
        // Without transfers to compare with, nothing is judged.
        all.retain(|d| d.workload != "alone, 4/30/3");
        let judged = judge(&e, &all, &summaries(&e, &all));
        assert!(judged.len() == 2 && judged.iter().all(|j| j.holds.is_none()));
        // Nor in a run without that workload.
        (e.workloads).retain(|w| w.name.get_ref() != "alone, 4/30/3");
        let judged = judge(&e, &all, &summaries(&e, &all));
        assert!(judged.len() == 2 && judged.iter().all(|j| j.holds.is_none()));
    }

    #[test]
    fn the_other_workload_exists_and_is_the_only_comparison() {
        for (lines, words) in [
            ("versus_workload = 'large'\n", "beside, alone, later, bulk"),
            (
                "versus_workload = 'alone'\nversus = 'helper only'\n",
                "do not go together",
            ),
            (
                "in_every_run = true\non_average = true\n",
                "`in_every_run` goes with",
            ),
        ] {
            let assert = format!("[[assert]]\nquantity = 'seconds'\nat_most = 1.0\n{lines}");
            let text = format!("{}\n{assert}", experiment().text);
            let e = Experiment::parse("t.toml", &text).unwrap_err().to_string();
            assert!(e.contains(words), "{lines}: {e}");
        }
    }

    #[test]
    fn how_much_more_is_the_median_of_differences() {
        let assert = "versus = 'b'\nquantity = 'seconds'\nmore_at_most = 0.5";
        let judged = judged(assert, &[(1.5, 1.0), (9.0, 3.0), (2.25, 2.0)]).unwrap();
        assert_eq!((judged.measured, judged.holds), (Some(0.5), Some(true)));
        assert_eq!(judged.what, "time (s) more than \"b\", at most");
    }

    #[test]
    fn what_holds_in_every_run_is_judged_by_the_worst_one() {
        let seconds = [(1.0, 1.0), (1.1, 1.0), (2.1, 1.0)];
        let every = "quantity = 'seconds'\nin_every_run = true";
        let worst = judged(&format!("{every}\nat_most = 2.0"), &seconds).unwrap();
        assert_eq!((worst.measured, worst.holds), (Some(2.1), Some(false)));
        assert_eq!(worst.what, "time (s) in every run at most");
        let least = judged(&format!("{every}\nat_least = 1.0"), &seconds).unwrap();
        assert_eq!((least.measured, least.holds), (Some(1.0), Some(true)));
        let versus = format!("{every}\nversus = 'b'\nat_most = 2.0");
        let worst = judged(&versus, &seconds).unwrap();
        assert_eq!((worst.measured, worst.holds), (Some(2.1), Some(false)));
        let median = "quantity = 'seconds'\nat_most = 2.0";
        assert_eq!(judged(median, &seconds).unwrap().holds, Some(true));
    }

    /// What becomes of an assert on "a", given seconds of "a" and "b" by repetition.
    fn judged(assert: &str, seconds: &[(f64, f64)]) -> Option<Judgement> {
        let both = |(r, (a, b)): (u32, &(f64, f64))| {
            [
                Transfer::for_test("a", r, *a),
                Transfer::for_test("b", r, *b),
            ]
        };
        let all: Vec<Transfer> = (0..).zip(seconds).flat_map(both).collect();
        let assert: Assert = toml::from_str(assert).unwrap();
        let summary = Summary {
            fit: seconds.len(),
            ..summary()
        };
        let mut judged = Vec::new();
        judge_one(&assert, &summary, &all, &mut judged);
        let e = experiment();
        more(&e, &assert, &summary, &all, &mut judged);
        bounded(&e, &assert, &[&summary], &all, &mut judged);
        judged.pop()
    }

    fn not_slower(seconds: &[(f64, f64)]) -> Option<bool> {
        judged("not_slower_than = 'b'", seconds)?.holds
    }

    #[test]
    fn a_time_ratio_is_that_of_the_same_repetition() {
        let assert = "versus = 'b'\nquantity = 'seconds'\nat_most = 0.8";
        // Over medians it would be 2 / 2; repetition by repetition it is 0.5.
        let seconds = [(1.0, 2.0), (2.0, 4.0), (3.0, 1.0), (1.0, 2.0), (4.0, 8.0)];
        let got = judged(assert, &seconds).unwrap();
        assert_eq!((got.measured, got.holds), (Some(0.5), Some(true)));
        let got = judged(assert, &[(0.81, 1.0)]).unwrap();
        assert_eq!(got.holds, Some(false));
        assert_eq!(judged(assert, &[]).unwrap().holds, None);
    }

    #[test]
    fn a_tie_is_not_slower_and_slower_is() {
        assert_eq!(
            not_slower(&[(1.01, 1.0), (0.99, 1.0)].repeat(10)),
            Some(true)
        );
        // By how little does not matter, when it is so every time.
        assert_eq!(
            not_slower(&[(1.01, 1.0), (1.02, 1.01)].repeat(10)),
            Some(false)
        );
        // What disturbs both alike is no difference.
        assert_eq!(
            not_slower(&[(1.0, 1.01), (3.0, 3.1)].repeat(10)),
            Some(true)
        );
        assert_eq!(not_slower(&[(1.01, 1.0)]), Some(false));
        assert_eq!(not_slower(&[]), None);
    }

    #[test]
    fn an_average_leaves_out_unfit_workloads() {
        let (mut all, mut summaries) = (Vec::new(), Vec::new());
        for (workload, ratio, fit) in [("u", 0.5, true), ("v", 2.0, true), ("w", 9.0, false)] {
            for (name, seconds) in [("a", ratio), ("b", 1.0)] {
                let mut d = Transfer::for_test(name, 0, seconds);
                d.workload = workload.into();
                d.fit = fit;
                all.push(d);
            }
            summaries.push(Summary {
                workload: workload.into(),
                ..summary()
            });
        }
        let assert = "versus = 'b'\nquantity = 'seconds'\nat_most = 1.0\non_average = true";
        let assert: Assert = toml::from_str(assert).unwrap();
        let e = experiment();
        let judge = |summaries: &[&Summary]| {
            let mut judged = Vec::new();
            bounded(&e, &assert, summaries, &all, &mut judged);
            judged.pop().unwrap()
        };
        let two = judge(&summaries.iter().collect::<Vec<_>>());
        assert_eq!((two.measured, two.holds), (Some(1.0), Some(true)));
        assert_eq!(two.workload, "on average over 2 of 3");
        let half = judge(&[&summaries[0], &summaries[2]]);
        assert_eq!((half.measured, half.holds), (None, None));
    }

    /// Two workloads of "a" and "b", whose ratios are 0.5 and 2 × `more`.
    fn average(assert: &str, more: f64) -> Option<Judgement> {
        let mut all = Vec::new();
        let mut summaries = Vec::new();
        for (workload, seconds) in [("v", 1.0), ("w", 4.0 * more)] {
            for (name, seconds) in [("a", seconds), ("b", 2.0)] {
                let mut d = Transfer::for_test(name, 0, seconds);
                d.workload = workload.into();
                all.push(d);
            }
            summaries.push(Summary {
                workload: workload.into(),
                ..summary()
            });
        }
        let assert: Assert = toml::from_str(assert).unwrap();
        let mut judged = Vec::new();
        bounded(
            &experiment(),
            &assert,
            &summaries.iter().collect::<Vec<_>>(),
            &all,
            &mut judged,
        );
        judged.pop()
    }

    #[test]
    fn an_average_is_over_workloads() {
        let assert = "versus = 'b'\nquantity = 'seconds'\nat_most = 1.0\non_average = true";
        let even = average(assert, 1.0).unwrap();
        assert_eq!((even.measured, even.holds), (Some(1.0), Some(true)));
        assert_eq!(even.workload, "on average over 2");
        let worse = average(assert, 1.1).unwrap();
        assert_eq!(worse.holds, Some(false));
        let alone = average(
            "quantity = 'seconds'\nat_least = 2.0\non_average = true",
            1.0,
        );
        assert_eq!(alone.unwrap().measured, Some(2.0)); // of 1 and 4
    }
}
