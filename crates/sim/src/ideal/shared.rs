//! Paths whose hops share a medium: a maximum flow over time.
//!
//! Time is cut where any capacity changes, seen from every hop. Within a slice
//! all rates are constant, so the fluid is a flow in a network with one buffer
//! node per hop and slice, an edge from each slice's buffer to the next one's
//! (waiting), and one node per medium and slice that all its hops pass.
//!
//! Slices are exact when cutting comes to an end: what one path's changes cut
//! off of another path's time may in turn cut the first. Where more than
//! [`MAX_SLICES`] would be needed (recorded traces change every millisecond),
//! time is cut evenly instead and capacities are averaged over a slice: data
//! passes the hops of a slice in any order, and a link's peak need not find
//! the medium free at that very millisecond. That only ever makes the bound
//! lower, so it stays a bound.

use std::collections::BTreeSet;
use std::iter;

use petgraph::Graph;
use petgraph::algo::dinics;
use petgraph::graph::NodeIndex;

use super::capacity::Capacity;
use super::error::IdealError;
use super::route::{Leg, Route};
use super::topology::Topology;

/// Slices of one path's time. More make the flow slow to compute: at 400 a
/// bound takes a fraction of a second.
const MAX_SLICES: u64 = 400;

/// Flows are whole numbers of thousandths of a bit.
const UNITS_PER_BIT: f64 = 1e3;

/// Side of the network on which a medium lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    /// All its hops are the first of their path.
    Source,
    /// All its hops are the last of their path.
    Sink,
}

/// The paths that share media.
#[derive(Debug)]
pub(super) struct Network<'a> {
    topology: &'a Topology,
    routes: &'a [Route<'a>],
    /// By medium of the topology; `None` if it is unused.
    sides: Vec<Option<Side>>,
}

impl<'a> Network<'a> {
    pub(super) fn new(topology: &'a Topology, routes: &'a [Route<'a>]) -> Result<Self, IdealError> {
        let sides = topology
            .media
            .iter()
            .enumerate()
            .map(|(index, medium)| {
                side(routes, index).map_err(|()| IdealError::MediumInTheMiddle {
                    medium: medium.name.clone(),
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            topology,
            routes,
            sides,
        })
    }

    /// Bits that all routes together can have delivered by `until_ns`, at most `need_bits`.
    pub(super) fn delivered_bits(&self, begin_ns: u64, until_ns: u64, need_bits: f64) -> f64 {
        if self.routes.is_empty() {
            return 0.0;
        }
        let need = (need_bits * UNITS_PER_BIT).ceil() as u64 + 1;
        let cuts = self.cuts(begin_ns, until_ns);
        let mut build = Build {
            graph: Graph::new(),
            need,
        };
        let source = build.node();
        let sink = build.node();
        let media: Vec<Vec<(u64, NodeIndex)>> = self
            .topology
            .media
            .iter()
            .enumerate()
            .map(|(index, medium)| {
                let Some(side) = self.sides.get(index).copied().flatten() else {
                    return Vec::new();
                };
                let times = self.times_at(index, &cuts);
                build.slices(&times, |build, from, to| {
                    let node = build.node();
                    let capacity = units(&medium.capacity, from, to);
                    match side {
                        Side::Source => build.edge(source, node, capacity),
                        Side::Sink => build.edge(node, sink, capacity),
                    }
                    node
                })
            })
            .collect();
        for (route, cuts) in self.routes.iter().zip(&cuts) {
            self.add_route(&mut build, route, cuts, &media, source, sink);
        }
        let (flow, _) = dinics(&build.graph, source, sink);
        flow as f64 / UNITS_PER_BIT
    }

    fn add_route(
        &self,
        build: &mut Build,
        route: &Route,
        cuts: &BTreeSet<u64>,
        media: &[Vec<(u64, NodeIndex)>],
        source: NodeIndex,
        sink: NodeIndex,
    ) {
        let mut before: Option<NodeIndex> = None;
        let slices: Vec<(u64, u64)> = cuts
            .iter()
            .copied()
            .zip(cuts.iter().copied().skip(1))
            .collect();
        // The buffers behind the leg before, one a slice.
        let mut filled: Vec<NodeIndex> = vec![source; slices.len()];
        for (index, leg) in route.legs.iter().enumerate() {
            let last = index + 1 == route.legs.len();
            let mut next: Vec<NodeIndex> = Vec::with_capacity(slices.len());
            for ((from, to), tail) in slices.iter().zip(&filled) {
                let head = if last { sink } else { build.node() };
                if !last && let Some(before) = before {
                    build.edge(before, head, build.need);
                }
                before = Some(head);
                let (start, end) = (from + leg.offset_ns, to + leg.offset_ns);
                match leg
                    .medium
                    .and_then(|m| Some((m, self.sides.get(m).copied()??)))
                {
                    None => build.edge(*tail, head, units(leg.capacity, start, end)),
                    Some((medium, side)) => {
                        let all = media.get(medium).map_or(&[][..], Vec::as_slice);
                        let first = all.partition_point(|slice| slice.0 < start);
                        let within = all.iter().skip(first).take_while(|slice| slice.0 < end);
                        let ends = all.iter().skip(first + 1).map(|slice| slice.0);
                        for ((at, node), until) in within.zip(ends.chain([end])) {
                            let capacity = units(leg.capacity, *at, until.min(end));
                            match side {
                                Side::Source => build.edge(*node, head, capacity),
                                Side::Sink => build.edge(*tail, *node, capacity),
                            }
                        }
                    }
                }
                next.push(head);
            }
            before = None;
            filled = next;
        }
    }

    /// Cuts of each route's time, by the time of its fluid.
    fn cuts(&self, begin_ns: u64, until_ns: u64) -> Vec<BTreeSet<u64>> {
        let spans: Vec<(u64, u64)> = self
            .routes
            .iter()
            .map(|route| (begin_ns, until_ns.saturating_sub(route.delay_ns)))
            .collect();
        self.exact_cuts(&spans)
            .unwrap_or_else(|| self.even_cuts(&spans))
    }

    /// Cuts at every change of a capacity; `None` if they are too many.
    fn exact_cuts(&self, spans: &[(u64, u64)]) -> Option<Vec<BTreeSet<u64>>> {
        let too_many = |cuts: &BTreeSet<u64>| cuts.len() as u64 > MAX_SLICES;
        let mut all = Vec::with_capacity(spans.len());
        for (route, (begin, end)) in self.routes.iter().zip(spans) {
            let mut cuts = BTreeSet::new();
            if begin < end {
                cuts.extend([*begin, *end]);
            }
            for leg in &route.legs {
                let medium = leg.medium.and_then(|m| self.topology.media.get(m));
                for capacity in iter::once(leg.capacity).chain(medium.map(|m| &m.capacity)) {
                    let mut at = *begin;
                    while at < *end {
                        cuts.insert(at);
                        if too_many(&cuts) {
                            return None;
                        }
                        let until = capacity.at(at + leg.offset_ns).1;
                        at = until.saturating_sub(leg.offset_ns).max(at + 1);
                    }
                }
            }
            all.push(cuts);
        }
        loop {
            let before: usize = all.iter().map(BTreeSet::len).sum();
            for medium in 0..self.topology.media.len() {
                let times = self.times_at(medium, &all);
                for (route, leg) in self.members(medium) {
                    let (Some(own), Some((begin, end))) = (all.get_mut(route), spans.get(route))
                    else {
                        continue;
                    };
                    own.extend(
                        times
                            .iter()
                            .filter_map(|time| time.checked_sub(leg.offset_ns))
                            .filter(|cut| (begin..=end).contains(&cut)),
                    );
                }
            }
            if all.iter().any(too_many) {
                return None;
            }
            if all.iter().map(BTreeSet::len).sum::<usize>() == before {
                return Some(all);
            }
        }
    }

    /// Even cuts, at the same instants for all hops on a medium.
    fn even_cuts(&self, spans: &[(u64, u64)]) -> Vec<BTreeSet<u64>> {
        let longest = spans.iter().map(|(begin, end)| end.saturating_sub(*begin));
        let slice = longest.max().unwrap_or(0).div_ceil(MAX_SLICES).max(1);
        self.routes
            .iter()
            .zip(spans)
            .map(|(route, (begin, end))| {
                if begin >= end {
                    return BTreeSet::new();
                }
                let shared = route.legs.iter().find(|leg| leg.medium.is_some());
                let offset = shared.map_or(0, |leg| leg.offset_ns);
                let first = (begin + offset).next_multiple_of(slice) - offset;
                let step = usize::try_from(slice).unwrap_or(usize::MAX);
                (first..*end).step_by(step).chain([*begin, *end]).collect()
            })
            .collect()
    }

    /// All cuts of the routes that share a medium, by the clock at the medium.
    fn times_at(&self, medium: usize, cuts: &[BTreeSet<u64>]) -> BTreeSet<u64> {
        self.members(medium)
            .flat_map(|(route, leg)| {
                let cuts = cuts.get(route).into_iter().flatten();
                cuts.map(|cut| cut + leg.offset_ns)
            })
            .collect()
    }

    /// The legs on a medium, each with the index of its route.
    fn members(&self, medium: usize) -> impl Iterator<Item = (usize, &Leg<'a>)> {
        self.routes
            .iter()
            .enumerate()
            .flat_map(move |(index, route)| {
                let legs = route.legs.iter();
                legs.filter(move |leg| leg.medium == Some(medium))
                    .map(move |leg| (index, leg))
            })
    }
}

/// The network under construction.
struct Build {
    graph: Graph<(), u64>,
    /// Capacity of an unlimited edge.
    need: u64,
}

impl Build {
    fn node(&mut self) -> NodeIndex {
        self.graph.add_node(())
    }

    fn edge(&mut self, from: NodeIndex, to: NodeIndex, capacity: u64) {
        if capacity > 0 {
            self.graph.add_edge(from, to, capacity.min(self.need));
        }
    }

    /// One node a slice between `times`, with the slice's begin.
    fn slices(
        &mut self,
        times: &BTreeSet<u64>,
        mut make: impl FnMut(&mut Self, u64, u64) -> NodeIndex,
    ) -> Vec<(u64, NodeIndex)> {
        let ends = times.iter().skip(1);
        times
            .iter()
            .zip(ends)
            .map(|(from, to)| (*from, make(self, *from, *to)))
            .collect()
    }
}

/// Capacity between two instants, in thousandths of a bit.
fn units(capacity: &Capacity, from_ns: u64, to_ns: u64) -> u64 {
    let mut units = 0_u128;
    let mut at = from_ns;
    while at < to_ns {
        let (bps, until) = capacity.at(at);
        let end = until.clamp(at + 1, to_ns);
        units += u128::from(bps) * u128::from(end - at);
        at = end;
    }
    u64::try_from(units / 1_000_000).unwrap_or(u64::MAX)
}

/// Side of the hops on a medium; `Err` if they are not all at one end.
fn side(routes: &[Route], medium: usize) -> Result<Option<Side>, ()> {
    let (mut used, mut all_first, mut all_last) = (false, true, true);
    for route in routes {
        for (index, leg) in route.legs.iter().enumerate() {
            if leg.medium == Some(medium) {
                used = true;
                all_first &= index == 0;
                all_last &= index + 1 == route.legs.len();
            }
        }
    }
    match (used, all_first, all_last) {
        (false, ..) => Ok(None),
        (true, true, _) => Ok(Some(Side::Source)),
        (true, _, true) => Ok(Some(Side::Sink)),
        _ => Err(()),
    }
}
