//! Lower bound with TCP's slow start: every hop opens with an initial window that doubles each
//! round trip, without a loss.

use std::time::Duration;

use super::{Direction, IdealError, MSS, PACKET_BYTES, Route, Topology, Transfer, routes};

/// Lower bound of the transfer's time over TCP connections that are open and have been idle, for
/// any scheduler. It is never below the fluid bound ([`super::ideal_time`]).
///
/// Each hop is a TCP connection with a window of `initial_window` segments at first and of one more
/// for each acknowledged segment (RFC 5681, slow start; RFC 6928, initial window), without delayed
/// acknowledgements, without a threshold and without a loss. A helper passes segments on as they
/// arrive, with a window of its own. Packets are full, and those of all paths add up; a packet that
/// is not full is left out. Shared media are left out, which keeps the bound valid.
///
/// # Errors
/// See [`IdealError`].
pub fn slow_start_time(
    topology: &Topology,
    transfer: Transfer,
    initial_window: u64,
) -> Result<Duration, IdealError> {
    let fluid = super::ideal_time(topology, transfer)?;
    let routes = routes(topology, transfer.direction)?;
    let fastest = routes.iter().map(|route| route.delay_ns).min();
    let fastest = fastest.ok_or(IdealError::Empty)?;
    let (begin, after) = match transfer.direction {
        Direction::Down => (fastest, 0),
        Direction::Up => (0, fastest),
    };
    let packets = (transfer.bytes / MSS) as usize;
    let mut paths: Vec<Vec<Hop>> = routes
        .iter()
        .map(|route| hops(route, begin, initial_window))
        .collect();
    // The next arrival over each path; the earliest is taken until all packets have arrived.
    let mut next: Vec<Option<u64>> = paths.iter_mut().map(|p| arrival(p, 0)).collect();
    let mut counts = vec![0; paths.len()];
    let mut end = begin;
    for _ in 0..packets {
        let earliest = (next.iter().zip(0..)).filter_map(|(at, path)| Some(((*at)?, path)));
        let Some((at, path)) = earliest.min() else {
            return Err(IdealError::Never);
        };
        end = at;
        counts[path] += 1;
        next[path] = arrival(&mut paths[path], counts[path]);
    }
    Ok(fluid.max(Duration::from_nanos(end.saturating_add(after))))
}

/// One TCP connection of a path.
struct Hop<'a> {
    route: &'a Route<'a>,
    /// Index in the route's legs.
    leg: usize,
    delay_ns: u64,
    initial_window: usize,
    /// When the source has data; later hops wait for the packets of the one before.
    begin: u64,
    /// By packet: when it arrived at the end of this hop.
    arrived: Vec<u64>,
    /// When the last packet had left.
    free_at: u64,
}

fn hops<'a>(route: &'a Route<'a>, begin: u64, initial_window: u64) -> Vec<Hop<'a>> {
    let ends = route.legs.iter().skip(1).map(|leg| leg.offset_ns);
    let ends = ends.chain([route.delay_ns]);
    let legs = route.legs.iter().zip(ends).enumerate();
    legs.map(|(leg, (from, to))| Hop {
        route,
        leg,
        delay_ns: to - from.offset_ns,
        initial_window: initial_window.max(1) as usize,
        begin,
        arrived: Vec::new(),
        free_at: begin,
    })
    .collect()
}

/// When packet `n`, the next one of the path, arrives at its end.
fn arrival(path: &mut [Hop], n: usize) -> Option<u64> {
    let mut available = path.first()?.begin;
    for hop in path {
        available = hop.carry(n, available)?;
    }
    Some(available)
}

impl Hop<'_> {
    /// When packet `n` arrives at the end of this hop, if its source has it at `available`.
    fn carry(&mut self, n: usize, available: u64) -> Option<u64> {
        // With k packets acknowledged the window is w + k, and n may leave once n - k < w + k.
        let acknowledged = match n.checked_sub(self.initial_window) {
            Some(beyond) => self.arrived.get(beyond / 2)?.saturating_add(self.delay_ns),
            None => 0,
        };
        let from = available.max(acknowledged).max(self.free_at);
        let capacity = self.route.legs.get(self.leg)?.capacity;
        self.free_at = capacity.time_to_send(from, PACKET_BYTES * 8)?;
        let arrived = self.free_at.saturating_add(self.delay_ns);
        self.arrived.push(arrived);
        Some(arrived)
    }
}

#[cfg(test)]
mod tests {
    use mpbond_units::BitRate;

    use super::super::{Capacity, Hop, Path, ideal_time};
    use super::*;

    fn hop(mbps: f64, delay_ms: u64) -> Hop {
        let rate = Capacity::constant(BitRate::from_mbps(mbps));
        Hop {
            down: rate.clone(),
            up: rate,
            delay: Duration::from_millis(delay_ms),
            shared_medium: None,
        }
    }

    fn topology(paths: Vec<Vec<Hop>>) -> Topology {
        let path = |hops| Path {
            name: "p".to_owned(),
            hops,
        };
        Topology {
            paths: paths.into_iter().map(path).collect(),
            media: Vec::new(),
        }
    }

    fn transfer(packets: u64, direction: Direction) -> Transfer {
        Transfer {
            bytes: packets * MSS,
            direction,
        }
    }

    /// 12 Mbit/s: one packet in a millisecond.
    #[test]
    fn a_window_doubles_each_round_trip() {
        let time = |packets| {
            let one = topology(vec![vec![hop(12.0, 50)]]);
            slow_start_time(&one, transfer(packets, Direction::Down), 10).unwrap()
        };
        let ms = Duration::from_millis;
        // Request 50 ms; ten packets at 51 to 60 ms, 50 ms on their way.
        assert_eq!(time(10), ms(110));
        // The first of the next twenty leaves when the first acknowledgement is back.
        assert_eq!(time(11), ms(202));
        assert_eq!(time(30), ms(221));
        assert_eq!(time(31), ms(303));
        // From the round of 160 packets on, the link is never idle.
        let far = time(3_000) - time(2_000);
        assert_eq!(far, ms(1_000));
        assert!(time(3_000) > ms(3_300));
    }

    #[test]
    fn a_helper_begins_its_own_slow_start_when_packets_come() {
        let one = topology(vec![vec![hop(120.0, 5), hop(12.0, 50)]]);
        let down = slow_start_time(&one, transfer(10, Direction::Down), 10).unwrap();
        // 55 ms request, 10 packets of 1 ms, 50 ms; the last 0.1 ms and 5 ms over the pipe.
        assert_eq!(
            down,
            Duration::from_micros(55_000 + 10_000 + 50_000 + 5_100)
        );
        let up = slow_start_time(&one, transfer(10, Direction::Up), 10).unwrap();
        // The first packet reaches the helper after 5.1 ms; each takes 1 ms from there.
        assert_eq!(up, Duration::from_micros(5_100 + 10_000 + 50_000 + 55_000));
    }

    #[test]
    fn paths_add_up_and_it_is_never_below_the_fluid_bound() {
        let both = topology(vec![vec![hop(8.0, 20)], vec![hop(30.0, 5), hop(10.0, 30)]]);
        for packets in [1, 10, 100, 1_000, 20_000] {
            for direction in [Direction::Down, Direction::Up] {
                let transfer = transfer(packets, direction);
                let fluid = ideal_time(&both, transfer).unwrap();
                let ten = slow_start_time(&both, transfer, 10).unwrap();
                let forty = slow_start_time(&both, transfer, 40).unwrap();
                assert!(fluid <= forty && forty <= ten, "{packets}");
                if packets == 20_000 {
                    assert!(ten.as_secs_f64() < fluid.as_secs_f64() * 1.02);
                }
            }
        }
    }

    #[test]
    fn a_dead_link_never_carries_it() {
        let dead = topology(vec![vec![hop(0.0, 20)]]);
        let result = slow_start_time(&dead, transfer(10, Direction::Down), 10);
        assert_eq!(result, Err(IdealError::Never));
    }
}
