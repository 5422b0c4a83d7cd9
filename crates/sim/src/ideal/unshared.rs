//! A path without shared media: a fluid through links in a row, computed from one change of a rate
//! to the next.

use super::route::Route;

/// Bits that the route has delivered by `until_ns`, if its first link opens at `begin_ns`.
///
/// Time is that of the fluid: each leg's own clock is ahead by the delay of the legs before it.
pub(super) fn delivered_bits(route: &Route, begin_ns: u64, until_ns: u64) -> f64 {
    let end = until_ns.saturating_sub(route.delay_ns);
    let mut now = begin_ns;
    let mut delivered = 0.0;
    // Queue before each leg; the source is never empty.
    let mut waiting = vec![0.0_f64; route.legs.len()];
    if let Some(source) = waiting.first_mut() {
        *source = f64::INFINITY;
    }
    let mut limits = vec![0.0_f64; route.legs.len()];
    while now < end {
        let mut change = end;
        for (leg, limit) in route.legs.iter().zip(&mut limits) {
            let (bps, until) = leg.capacity.at(now.saturating_add(leg.offset_ns));
            *limit = bps as f64;
            change = change.min(until.saturating_sub(leg.offset_ns));
        }
        let change = change.max(now + 1);
        delivered += run(&mut waiting, &limits, (change - now) as f64 / 1e9);
        now = change;
    }
    delivered
}

/// Advances the fluid by `left` seconds at constant limits (bit/s). Returns the bits delivered.
fn run(waiting: &mut [f64], limits: &[f64], mut left: f64) -> f64 {
    let mut out_bits = 0.0;
    while left > 0.0 {
        // The rates hold until a queue that shrinks is empty.
        let mut span = left;
        let mut inflow = 0.0;
        for (queue, limit) in waiting.iter().zip(limits) {
            let outflow = rate_out(*queue, inflow, *limit);
            if *queue > 0.0 && outflow > inflow {
                span = span.min(*queue / (outflow - inflow));
            }
            inflow = outflow;
        }
        let mut inflow = 0.0;
        for (queue, limit) in waiting.iter_mut().zip(limits) {
            let outflow = rate_out(*queue, inflow, *limit);
            *queue += (inflow - outflow) * span;
            // Below a thousandth of a bit is rounding, not data; leaving it
            // would take ever smaller steps.
            if *queue < 1e-3 {
                *queue = 0.0;
            }
            inflow = outflow;
        }
        out_bits += inflow * span;
        left -= span;
    }
    out_bits
}

fn rate_out(queue: f64, inflow: f64, limit: f64) -> f64 {
    if queue > 0.0 {
        limit
    } else {
        inflow.min(limit)
    }
}
