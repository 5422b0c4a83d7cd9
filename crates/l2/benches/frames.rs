//! Time of a frame from one end to the other, without sockets: writing, encoding, the tag,
//! decoding and reading; of full frames, and of frames of one octet while a thousand are under
//! way.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use mpbond_l2::{Channel, Config, Key, Read, Side};
use mpbond_units::Timestamp;

const ROUNDS: usize = 20;
const BYTES: usize = 16 << 20;
const UNDER_WAY: u32 = 1024;
const NOW: Timestamp = Timestamp::from_millis(1);

fn channel(side: Side) -> Channel {
    let config = Config {
        channel: 7,
        key: Key::from_bytes([9; 16]),
        side,
        mtu: 1500,
        window_bytes: 1 << 20,
    };
    Channel::new(NOW, config)
}

fn main() {
    let mut times: Vec<_> = (0..ROUNDS).map(|_| full()).collect();
    times.sort_unstable();
    let median = times[ROUNDS / 2].as_nanos();
    println!("a frame of 1500 octets, both ends        {median:>8} ns");
    let mut times: Vec<_> = (0..ROUNDS).map(|_| short()).collect();
    times.sort_unstable();
    let median = times[ROUNDS / 2].as_nanos();
    println!("a frame of one octet behind up to {UNDER_WAY}, sender {median:>4} ns");
}

fn full() -> Duration {
    let octets = vec![0x5a; 64 << 10];
    let mut into = vec![0; 64 << 10];
    let mut frame = [0; 1500];
    let (mut primary, mut helper) = (channel(Side::Primary), channel(Side::Helper));
    let (mut read, mut frames) = (0, 0_u32);
    let start = Instant::now();
    while read < BYTES {
        primary.write(&octets).unwrap();
        while let Some(length) = primary.poll_frame(NOW, &mut frame) {
            helper.handle_frame(NOW, &frame[..length]).unwrap();
            frames += 1;
        }
        while let Read::Octets(count) = helper.read(&mut into).unwrap() {
            read += count;
        }
        while let Some(length) = helper.poll_frame(NOW, &mut frame) {
            primary.handle_frame(NOW, &frame[..length]).unwrap();
        }
    }
    start.elapsed() / frames
}

fn short() -> Duration {
    let mut frame = [0; 1500];
    let (mut primary, mut helper) = (channel(Side::Primary), channel(Side::Helper));
    let length = primary.poll_frame(NOW, &mut frame).unwrap();
    helper.handle_frame(NOW, &frame[..length]).unwrap();
    let length = helper.poll_frame(NOW, &mut frame).unwrap();
    primary.handle_frame(NOW, &frame[..length]).unwrap();
    let start = Instant::now();
    for _ in 0..UNDER_WAY {
        primary.write(&[0x5a]).unwrap();
        assert!(primary.poll_frame(NOW, &mut frame).is_some());
    }
    start.elapsed() / UNDER_WAY
}
