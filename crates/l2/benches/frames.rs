//! Time of a frame from one end to the other, without sockets: writing, encoding, the tag,
//! decoding and reading.
#![allow(clippy::unwrap_used)]

use std::time::Instant;

use mpbond_l2::{Channel, Config, Key, Read, Side};
use mpbond_units::Timestamp;

const ROUNDS: usize = 20;
const BYTES: usize = 16 << 20;

fn main() {
    let now = Timestamp::from_millis(1);
    let config = |side| Config {
        channel: 7,
        key: Key::from_bytes([9; 16]),
        side,
        mtu: 1500,
        window_bytes: 1 << 20,
    };
    let octets = vec![0x5a; 64 << 10];
    let mut into = vec![0; 64 << 10];
    let mut frame = [0; 1500];
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let mut primary = Channel::new(now, config(Side::Primary));
        let mut helper = Channel::new(now, config(Side::Helper));
        let (mut read, mut frames) = (0, 0_u32);
        let start = Instant::now();
        while read < BYTES {
            primary.write(&octets).unwrap();
            while let Some(length) = primary.poll_frame(now, &mut frame) {
                helper.handle_frame(now, &frame[..length]).unwrap();
                frames += 1;
            }
            while let Read::Octets(count) = helper.read(&mut into).unwrap() {
                read += count;
            }
            while let Some(length) = helper.poll_frame(now, &mut frame) {
                primary.handle_frame(now, &frame[..length]).unwrap();
            }
        }
        times.push(start.elapsed() / frames);
    }
    times.sort_unstable();
    let median = times[ROUNDS / 2];
    println!(
        "a frame of 1500 octets, both ends    {:>8} ns",
        median.as_nanos()
    );
}
