//! Load that keeps links full, and the rates measured meanwhile.
//!
//! One thread sends for all links, in bursts that the kernel splits into packets, so that the load
//! does not disturb the player.

use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mpbond_units::BitRate;

use super::way::{HEADER_BYTES, QUEUE, Way, name};
use crate::error::{Doing, Result};
use crate::network::wiring::counters;
use crate::sys;

/// Time for the queues to fill.
pub(super) const FILLING: Duration = Duration::from_millis(500);
/// Time of the measurement with full queues.
pub(super) const FULL_FOR: Duration = Duration::from_secs(4);
const PACKET_BYTES: usize = 1500;
const PAYLOAD_BYTES: usize = PACKET_BYTES - HEADER_BYTES;
/// Maximum number of packets of one call: 64 KiB of UDP.
const BURST: usize = 44;
const BURST_EVERY: Duration = Duration::from_millis(1);

/// Rates through links whose queues never run empty, by the counters of the receiving devices,
/// since a receiving program might be too slow. In the order of ways, then of links. `filled` is
/// called before the measurement.
pub(super) fn rates(
    ways: &[Way<'_>],
    links: usize,
    rate: BitRate,
    filled: impl FnOnce() -> Result<()>,
) -> Result<Vec<BitRate>> {
    let mut senders = Vec::new();
    let mut receivers = Vec::new();
    for way in ways {
        for link in 0..links {
            let (receiver, sender) = way.sockets(link)?;
            sys::udp::cut_into(&sender, PAYLOAD_BYTES as u16).doing("cannot send in bursts")?;
            senders.push(sender);
            // Nobody reads these sockets, but without them hosts would send ICMP errors.
            receivers.push(receiver);
        }
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (over, senders) = (&over, &senders);
        scope.spawn(move || keep_full(senders, rate, over));
        std::thread::sleep(FILLING);
        let measured = filled().and_then(|()| count(ways, links));
        over.store(true, Ordering::Relaxed);
        measured
    })
}

/// Sends slightly more than the rate, after the capacity of the queues.
fn keep_full(senders: &[UdpSocket], rate: BitRate, over: &AtomicBool) {
    let surplus = BitRate::from_bps(rate.bps() / 20 * 21);
    let burst = [0; BURST * PAYLOAD_BYTES];
    let start = Instant::now();
    let mut sent = 0;
    while !over.load(Ordering::Relaxed) {
        let due = surplus.bytes_in(start.elapsed() + QUEUE);
        while sent < due {
            let packets = (due - sent).div_ceil(PACKET_BYTES as u64).min(BURST as u64) as usize;
            for sender in senders {
                send(sender, &burst[..packets * PAYLOAD_BYTES]);
            }
            sent += (packets * PACKET_BYTES) as u64;
        }
        std::thread::sleep(BURST_EVERY);
    }
}

/// Packets dropped at a full device queue do not matter.
fn send(sender: &UdpSocket, burst: &[u8]) {
    if sender.send(burst).is_err() {
        // Kernels before 6.11 cannot split for this device.
        for packet in burst.chunks(PAYLOAD_BYTES) {
            let _ = sender.send(packet);
        }
    }
}

fn count(ways: &[Way<'_>], links: usize) -> Result<Vec<BitRate>> {
    let everywhere = || -> Result<Vec<(Instant, u64)>> {
        let mut all = Vec::new();
        for way in ways {
            let counted = way
                .to
                .enter(|| (0..links).map(received).collect::<io::Result<Vec<_>>>())?;
            all.extend(counted.doing("the rate measurement failed")?);
        }
        Ok(all)
    };
    let before = everywhere()?;
    std::thread::sleep(FULL_FOR);
    let after = everywhere()?;
    let over = |((start, before), (end, after)): ((Instant, u64), (Instant, u64))| {
        BitRate::over((after - before) * PACKET_BYTES as u64, end - start)
    };
    Ok(before.into_iter().zip(after).map(over).collect())
}

/// Number of packets received by the device of `link` in the calling thread's host, and the time of
/// the reading.
fn received(link: usize) -> io::Result<(Instant, u64)> {
    // A slow reading has no exact time.
    const AT_ONCE: Duration = Duration::from_millis(1);
    const TRIES: u32 = 50;
    let mut last = None;
    for _ in 0..TRIES {
        let before = Instant::now();
        let packets = counters(&name(link))?.received_packets;
        let took = before.elapsed();
        last = Some((before + took / 2, packets));
        if took < AT_ONCE {
            break;
        }
    }
    last.ok_or_else(|| io::Error::other("the counters were not read"))
}
