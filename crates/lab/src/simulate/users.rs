//! Users of a scheme beside the first one, and the ways of each to the proxy.

use std::collections::BTreeMap;

use mpbond_price::PipeRadios;
use mpbond_sim::world::{ExchangeOutcome, Scenario};

use crate::experiment::{Direction, Experiment, Link, Pipes, Role, Scheme};
use crate::figures::quantity::Quantity;
use crate::player::Passed;
use crate::transfer::app::mean_and_p95;

/// The world of a user beside the first one.
#[derive(Debug)]
pub(super) struct Other {
    pub scenario: Scenario,
    /// Indices of links that are the first user's, seen from their other end.
    pub reversed: Vec<usize>,
    /// Names of its links, where they are those of the first user.
    pub links: Vec<String>,
}

impl Other {
    /// A packet of this user as the first one sees it, whose links have these names; `None` for one
    /// on other links.
    pub fn seen_by_first(&self, packet: Passed, names: &[String]) -> Option<Passed> {
        let name = self.links.get(packet.link)?;
        let direction = match (self.reversed.contains(&packet.link), packet.direction) {
            (false, direction) => direction,
            (true, Direction::Up) => Direction::Down,
            (true, Direction::Down) => Direction::Up,
        };
        Some(Passed {
            link: names.iter().position(|n| n == name)?,
            direction,
            ..packet
        })
    }
}

/// A way to the proxy: a direct link, or pipe and HS-Path.
pub(super) struct Way<'e> {
    /// Name of its direct link, of its helper or, of a helper with several pipes, of its pipe.
    pub name: &'e str,
    /// Name of the direct link or of the device behind it.
    pub of: &'e str,
    /// Number of the helper.
    pub helper: Option<u32>,
    /// Place among pipes of which the best one is used.
    pub place: Option<usize>,
    /// Radios of such a pipe, where the primary knows them.
    pub radios: Option<PipeRadios>,
    pub links: Vec<&'e Link>,
    /// The pipe is seen from its other end.
    pub is_reversed: bool,
}

/// The ways of a user.
pub(super) fn ways<'e>(e: &'e Experiment, scheme: &Scheme, user: usize) -> Vec<Way<'e>> {
    if scheme.dual && user > 0 {
        return of_second(e, scheme);
    }
    let mut ways: Vec<Way> = scheme.direct_links(e).map(direct).collect();
    for (helper, number) in scheme.helpers(e).zip(0..) {
        let several = e.pipes_of(helper).count() > 1;
        for (place, pipe) in e.pipes_of(helper).enumerate() {
            ways.push(Way {
                name: if several { pipe.name.get_ref() } else { helper },
                of: helper,
                helper: Some(number),
                place: Some(place).filter(|_| several && scheme.pipes == Pipes::Best),
                radios: pipe.pipe_radios().filter(|_| scheme.pipe_radios),
                links: std::iter::once(pipe).chain(e.uplink_of(helper)).collect(),
                is_reversed: false,
            });
        }
    }
    ways
}

fn direct(link: &Link) -> Way<'_> {
    Way {
        name: link.name.get_ref(),
        of: link.name.get_ref(),
        helper: None,
        place: None,
        radios: None,
        links: vec![link],
        is_reversed: false,
    }
}

/// Those of the first helper's user in dual mode: the helper's own link and, in a session, the
/// first user's device as a helper.
fn of_second<'e>(e: &'e Experiment, scheme: &Scheme) -> Vec<Way<'e>> {
    let helper = e.helpers().next().map(|host| host.name.get_ref().as_str());
    let own = helper.and_then(|helper| e.uplink_of(helper));
    let lent = helper
        .filter(|_| scheme.devices > 1)
        .and_then(|helper| e.pipe_of(helper))
        .zip(scheme.direct_links(e).next());
    let lent = lent.map(|(pipe, up)| Way {
        name: e.host(Role::Primary).name.get_ref(),
        of: e.host(Role::Primary).name.get_ref(),
        helper: Some(0),
        place: None,
        radios: None,
        links: vec![pipe, up],
        is_reversed: true,
    });
    own.map(direct).into_iter().chain(lent).collect()
}

/// Quantities of chunks of all users, or of the second one in dual mode.
pub(super) fn quantities(
    dual: bool,
    first: &[&ExchangeOutcome],
    others: &[Vec<&ExchangeOutcome>],
) -> BTreeMap<Quantity, f64> {
    let times = |all: &[&ExchangeOutcome]| -> Vec<f64> {
        let took = all.iter().filter_map(|x| x.took);
        took.map(|took| took.as_secs_f64()).collect()
    };
    let named = |times, [mean, p95]: [Quantity; 2]| {
        mean_and_p95(times).map(|figures| [(mean, figures.0), (p95, figures.1)])
    };
    let mut all = BTreeMap::new();
    if let ([second], true) = (others, dual) {
        let names = [Quantity::SecondChunkS, Quantity::SecondChunkP95S];
        all.extend(named(times(second), names).into_iter().flatten());
    } else if !others.is_empty() {
        let each: Vec<Vec<f64>> = std::iter::once(times(first))
            .chain(others.iter().map(|other| times(other)))
            .collect();
        let rates = each
            .iter()
            .filter_map(|times| Some(1.0 / mean_and_p95(times.clone())?.0));
        all.extend(jain(rates).map(|index| (Quantity::Fairness, index)));
        let names = [Quantity::ChunkS, Quantity::ChunkP95S];
        all.extend(named(each.concat(), names).into_iter().flatten());
    }
    all
}

/// Jain's index of fairness: 1 where all are equal, one over their number where one has all.
fn jain(shares: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut number, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for share in shares {
        number += 1.0;
        sum += share;
        squares += share * share;
    }
    (squares > 0.0).then(|| sum * sum / (number * squares))
}

#[cfg(test)]
mod tests {
    use super::jain;

    #[test]
    fn jains_index_is_one_where_all_are_equal() {
        assert_eq!(jain([2.0, 2.0, 2.0, 2.0].into_iter()), Some(1.0));
        assert_eq!(jain([4.0, 0.0, 0.0, 0.0].into_iter()), Some(0.25));
        assert_eq!(jain([3.0, 1.0].into_iter()), Some(0.8));
        assert_eq!(jain(std::iter::empty()), None);
    }
}
