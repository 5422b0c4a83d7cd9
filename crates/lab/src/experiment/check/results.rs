//! Checks of asserts, published figures and the parameter.

use std::ops::Range;

use toml::Spanned;

use super::names::unknown;
use crate::error::Result;
use crate::experiment::assert::Assert;
use crate::experiment::file::Experiment;
use crate::experiment::place::Place;
use crate::experiment::scheme::Scheme;

pub(super) fn asserts(e: &Experiment, place: &Place) -> Result<()> {
    for (number, assert) in (1..).zip(&e.asserts) {
        let named = [&assert.scheme, &assert.not_slower_than, &assert.versus];
        for scheme in named.into_iter().flatten() {
            if !e.schemes.iter().any(|s| s.name == *scheme) {
                return Err(place.at(
                    scheme,
                    unknown("scheme", scheme, e.schemes.iter().map(|s| &s.name)),
                ));
            }
        }
        if let Some(s) = &assert.setting
            && !e.settings.iter().any(|x| x.name == *s)
        {
            return Err(place.at(s, unknown("setting", s, e.settings.iter().map(|s| &s.name))));
        }
        let bounds = [assert.at_most, assert.at_least, assert.more_at_most];
        let bounded = bounds.iter().any(Option::is_some);
        let compared = [&assert.versus, &assert.versus_workload];
        let compared = compared.into_iter().flatten().count();
        let wrong = if compared > 1 {
            Some("`versus` and `versus_workload` do not go together")
        } else if compared > 0 && !bounded {
            Some("`versus` needs `quantity` with `at_most` or `at_least`")
        } else if assert.more_at_most.is_some() && (compared == 0 || assert.on_average) {
            Some("`more_at_most` needs `versus` or `versus_workload`, and is of each workload")
        } else if assert.in_every_run
            && (assert.on_average || assert.more_at_most.is_some() || !bounded)
        {
            Some("`in_every_run` goes with `at_most` or `at_least` alone")
        } else if bounded != assert.quantity.is_some() {
            Some("`quantity` needs `at_most` or `at_least`")
        } else if assert
            .quantity
            .as_ref()
            .is_some_and(|q| q.get_ref().is_energy())
            && e.energy.is_empty()
        {
            Some("energy needs a model, [[energy]]")
        } else {
            None
        };
        if let Some(wrong) = wrong {
            let spans = [
                assert.versus.as_ref().map(Spanned::span),
                assert.versus_workload.as_ref().map(Spanned::span),
                assert.quantity.as_ref().map(Spanned::span),
            ];
            return Err(place.error(spans.into_iter().flatten().next(), wrong));
        }
        if let Some(model) = &assert.model
            && !e.energy.iter().any(|m| m.name == *model)
        {
            let all = e.energy.iter().map(|m| &m.name);
            return Err(place.at(model, unknown("energy model", model, all)));
        }
        let named = [&assert.workload, &assert.versus_workload];
        for w in named.into_iter().flatten() {
            if !e.workloads.iter().any(|x| x.name == *w) {
                return Err(place.at(
                    w,
                    unknown("workload", w, e.workloads.iter().map(|w| &w.name)),
                ));
            }
        }
        if let Some(why) = cannot_fail(e, assert) {
            let names = [
                &assert.versus_workload,
                &assert.versus,
                &assert.not_slower_than,
                &assert.scheme,
                &assert.workload,
                &assert.setting,
                &assert.model,
            ];
            let span = names.into_iter().flatten().map(Spanned::span).next();
            return Err(place.error(span, &format!("[[assert]] number {number}: {why}")));
        }
    }
    Ok(())
}

/// The reason why an assert, whose names exist, can never be missed.
fn cannot_fail(e: &Experiment, a: &Assert) -> Option<&'static str> {
    let bounds = [
        a.max_ratio,
        a.max_seconds,
        a.max_redundant_share,
        a.max_finish_spread_s,
        a.max_finish_spread_share,
        a.min_finish_spread_s,
        a.max_stall_s,
    ];
    let bounded = bounds.iter().any(Option::is_some) || a.not_slower_than.is_some();
    if !bounded && a.quantity.is_none() {
        return Some("it bounds nothing");
    }
    if a.on_average && a.quantity.is_none() {
        return Some("`on_average` needs `quantity`");
    }
    if a.workload.is_some() && a.workload == a.versus_workload {
        return Some("`versus_workload` must be another workload");
    }
    if a.scheme.is_some() && [&a.versus, &a.not_slower_than].contains(&&a.scheme) {
        return Some("it compares a scheme with itself");
    }
    (!has_transfers(e, a)).then_some("these schemes carry none of the workloads")
}

/// Whether there are transfers that an assert is about, with those that it compares them with.
fn has_transfers(e: &Experiment, a: &Assert) -> bool {
    let is_named =
        |name: Option<&Spanned<String>>, it: &Spanned<String>| name.is_none_or(|name| name == it);
    let schemes = e.schemes.iter();
    let mut schemes = schemes.filter(|s| is_named(a.scheme.as_ref(), &s.name));
    schemes.any(|scheme| {
        let carried = e.workloads.iter().filter(|w| scheme.carries(w));
        let mut carried = carried.filter(|w| is_named(a.workload.as_ref(), &w.name));
        carried.any(|workload| {
            let others = [&a.versus, &a.not_slower_than].into_iter().flatten();
            let mut others = others.filter_map(|name| e.schemes.iter().find(|s| s.name == *name));
            let other_workload = a.versus_workload.as_ref().is_none_or(|name| {
                let other = e.workloads.iter().find(|w| w.name == *name);
                workload.name != *name && other.is_some_and(|w| scheme.carries(w))
            });
            others.all(|s| s.carries(workload)) && other_workload
        })
    })
}

pub(super) fn papers(e: &Experiment, place: &Place) -> Result<()> {
    for p in &e.papers {
        let wrong = |why: &str| {
            let figure = p.figure.get_ref();
            Err(place.at(&p.figure, format!("[[paper]] \"{figure}\": {why}")))
        };
        let scheme = known(e, place, &p.scheme)?;
        let versus = match &p.versus {
            Some(versus) => Some(known(e, place, versus)?),
            None => None,
        };
        if versus.is_some_and(|v| v.name == scheme.name) {
            return wrong("`versus` must be another scheme");
        }
        if let Some(name) = &p.workload
            && !e.workloads.iter().any(|w| w.name == *name)
        {
            let all = e.workloads.iter().map(|w| &w.name);
            return Err(place.at(name, unknown("workload", name, all)));
        }
        if let Some(name) = &p.setting
            && !e.settings.iter().any(|s| s.name == *name)
        {
            let all = e.settings.iter().map(|s| &s.name);
            return Err(place.at(name, unknown("setting", name, all)));
        }
        if let Some(name) = &p.model
            && !e.energy.iter().any(|m| m.name == *name)
        {
            let all = e.energy.iter().map(|m| &m.name);
            return Err(place.at(name, unknown("energy model", name, all)));
        }
        let modelled = if p.quantity.is_energy() {
            !e.energy.is_empty()
        } else {
            p.model.is_none()
        };
        if !modelled {
            return wrong(
                "`model` goes with a quantity of energy, which needs a model, [[energy]]",
            );
        }
        if p.workloads(e).next().is_none() {
            return wrong("these schemes carry none of the workloads");
        }
        let published = match (p.change_percent, p.more, p.value, versus) {
            (Some(change), None, None, Some(_)) => change,
            (None, Some(more), None, Some(_)) => more,
            (None, None, Some(value), None) => value,
            _ => {
                return wrong(
                    "either `value`, or `change_percent` or `more` together with `versus`",
                );
            }
        };
        let (low, high) = published.ends();
        if !(low.is_finite() && high.is_finite() && low <= high) {
            return wrong("a range goes from the smallest to the largest number");
        }
    }
    Ok(())
}

fn known<'e>(e: &'e Experiment, place: &Place, name: &Spanned<String>) -> Result<&'e Scheme> {
    let found = e.schemes.iter().find(|s| s.name == *name);
    found.ok_or_else(|| {
        let all = e.schemes.iter().map(|s| &s.name);
        place.at(name, unknown("scheme", name, all))
    })
}

/// Checks that either settings or schemes have a `parameter`, where the experiment has one.
pub(super) fn parameter(e: &Experiment, place: &Place) -> Result<()> {
    let settings = e.settings.iter().map(|s| (&s.name, s.parameter));
    let schemes = e.schemes.iter().map(|s| (&s.name, s.parameter));
    let of = |list: Vec<(&Spanned<String>, Option<f64>)>| {
        let given = list.into_iter().find(|(_, p)| p.is_some());
        given.map(|(name, p)| (name.span(), p))
    };
    let (in_settings, in_schemes) = (of(settings.collect()), of(schemes.collect()));
    let wrong = |span: Range<usize>, why: &str| Err(place.error(Some(span), why));
    match (&e.parameter, in_settings, in_schemes) {
        (None, Some((span, _)), _) | (None, None, Some((span, _))) => wrong(
            span,
            "a setting or scheme has a `parameter`: name its axis by `parameter` at the top",
        ),
        (Some(_), Some((span, _)), Some(_)) => {
            wrong(span, "`parameter`: settings or schemes have one, not both")
        }
        (Some(_), None, None) => {
            Err(place.error(None, "`parameter`: no setting and no scheme has one"))
        }
        (_, Some((span, Some(p))), _) | (_, _, Some((span, Some(p)))) if !p.is_finite() => {
            wrong(span, "`parameter` must be a number")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::tests::GOOD;

    #[test]
    fn asserts_that_cannot_fail_are_refused_with_their_place() {
        let more = "[[workload]]\nname = \"large\"\ndirection = \"down\"\nbytes = \"9 MB\"\n\
                    [[scheme]]\nname = \"one\"\nscheme = \"single\"\nworkloads = [\"large\"]\n\
                    [[assert]]\nmax_seconds = 9\n[[assert]]\n";
        let begin = format!("{GOOD}{more}");
        let parse = |assert: &str| Experiment::parse("t.toml", &format!("{begin}{assert}"));
        let seconds = "quantity = \"seconds\"\nat_most = 2.0\n";
        for good in [
            "scheme = \"one\"\nmax_ratio = 2.0\n".to_owned(),
            "scheme = \"one\"\nnot_slower_than = \"two\"\n".to_owned(),
            format!("versus = \"one\"\n{seconds}"),
            format!("on_average = true\n{seconds}"),
            format!("scheme = \"two\"\nversus_workload = \"small\"\n{seconds}"),
        ] {
            parse(&good).unwrap();
        }
        for (assert, place, words) in [
            ("scheme = \"one\"\n".to_owned(), "scheme", "bounds nothing"),
            ("on_average = true\n".to_owned(), "", "bounds nothing"),
            (
                "scheme = \"one\"\non_average = true\nmax_ratio = 2.0\n".to_owned(),
                "scheme",
                "needs `quantity`",
            ),
            (
                "scheme = \"one\"\nworkload = \"small\"\nmax_ratio = 2.0\n".to_owned(),
                "scheme",
                "carry none",
            ),
            (
                format!("workload = \"small\"\nversus = \"one\"\n{seconds}"),
                "versus",
                "carry none",
            ),
            (
                "workload = \"small\"\nnot_slower_than = \"one\"\n".to_owned(),
                "not_slower_than",
                "carry none",
            ),
            (
                format!("scheme = \"one\"\nversus_workload = \"small\"\n{seconds}"),
                "versus_workload",
                "carry none",
            ),
            (
                format!("workload = \"small\"\nversus_workload = \"small\"\n{seconds}"),
                "versus_workload",
                "another workload",
            ),
            (
                "scheme = \"two\"\nnot_slower_than = \"two\"\n".to_owned(),
                "not_slower_than",
                "with itself",
            ),
        ] {
            let error = parse(&assert).unwrap_err();
            assert_eq!(error.exit_code(), 2);
            let error = error.to_string();
            let before = assert.lines().position(|line| line.starts_with(place));
            let line = begin.lines().count() + before.unwrap() + 1;
            let begins = match place {
                "" => "t.toml: [[assert]] number 2: ".to_owned(),
                _ => format!("t.toml:{line}: [[assert]] number 2: "),
            };
            assert!(error.starts_with(&begins), "{assert}: {error}");
            assert!(error.contains(words), "{assert}: {error}");
        }
    }
}
