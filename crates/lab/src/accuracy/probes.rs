//! One-way delays of probes over a link that is otherwise idle.

use std::io;
use std::net::UdpSocket;
use std::time::Duration;

use mpbond_units::BitRate;

use super::load::{FILLING, FULL_FOR};
use super::way::{DELAY, HEADER_BYTES, Way};
use crate::error::{Doing, Result};
use crate::player::Clock;
use crate::sys;

const PAYLOAD_BYTES: usize = 100;
/// Interval of probes, unrelated to the periods of the player and its load.
const EVERY: Duration = Duration::from_micros(9_730);

/// Delays of probes on `link` beyond the nominal one, sorted, in ms, while the other links are
/// full.
pub(super) fn delay_errors(way: &Way<'_>, link: usize, rate: BitRate) -> Result<Vec<f64>> {
    std::thread::sleep(FILLING);
    let (receiver, sender) = way.sockets(link)?;
    let clock = Clock::start();
    let probes = (FULL_FOR.as_nanos() / EVERY.as_nanos()) as u32;
    let nominal = DELAY + rate.time_for((PAYLOAD_BYTES + HEADER_BYTES) as u64);
    let mut errors_ms = std::thread::scope(|scope| -> io::Result<Vec<f64>> {
        let sending = scope.spawn(move || send(&sender, clock, probes));
        // Both ends need to wake up at once, as the player does.
        let _ = sys::sched::become_fifo();
        let mut errors = Vec::new();
        for _ in 0..probes {
            let mut stamp = [0; 8];
            receiver.recv(&mut stamp)?;
            let arrived = clock.now().as_nanos();
            let took_ns = arrived.saturating_sub(u64::from_be_bytes(stamp)) as f64;
            errors.push((took_ns - nominal.as_nanos() as f64) / 1e6);
        }
        match sending.join() {
            Ok(sent) => sent?,
            Err(_) => return Err(io::Error::other("the sender panicked")),
        }
        Ok(errors)
    })
    .doing("the delay measurement failed")?;
    errors_ms.sort_by(f64::total_cmp);
    Ok(errors_ms)
}

/// Sends probes with their time of sending.
fn send(sender: &UdpSocket, clock: Clock, probes: u32) -> io::Result<()> {
    let _ = sys::sched::become_fifo();
    for _ in 0..probes {
        let mut packet = [0; PAYLOAD_BYTES];
        let stamp = clock.now().as_nanos().to_be_bytes();
        for (to, from) in packet.iter_mut().zip(stamp) {
            *to = from;
        }
        sender.send(&packet)?;
        std::thread::sleep(EVERY);
    }
    Ok(())
}
