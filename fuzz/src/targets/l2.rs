//! The L2 pipe: frames of the wire format, and a channel with a peer that has its key and sends
//! arbitrary frames.

use std::num::NonZeroU32;
use std::time::Duration;

use mpbond_l2::frame::{self, Header, Kind, MAX_RANGES, Range};
use mpbond_l2::{Channel, Config, Key, Read, Side};
use mpbond_units::Timestamp;

use crate::Choices;

const CHANNEL: u32 = 0x1122_3344;
const WINDOW_BYTES: u32 = 64 << 10;
/// More frames than a window can hold and the acknowledgements of a call.
const MAX_FRAMES: usize = 3000;

/// Octets as a frame; frames with a right tag, which are read as they were written; and calls of a
/// channel, which neither panics nor sends without end.
pub fn l2_frame(octets: &[u8]) {
    let key = Key::from_bytes([7; 16]);
    assert!(frame::decode(octets, CHANNEL, &key, Side::Helper).is_err());
    let mut now = Timestamp::from_millis(1);
    let mut channel = Channel::new(
        now,
        Config {
            channel: CHANNEL,
            key,
            side: Side::Primary,
            mtu: 1500,
            window_bytes: WINDOW_BYTES,
        },
    );
    let mut choices = Choices::new(octets);
    while !choices.is_empty() {
        match choices.below(12) {
            kind @ 0..5 => {
                let kinds = [Kind::Data, Kind::Ack, Kind::Fin, Kind::Reset, Kind::Ping];
                let octets = made(&mut choices, kinds[kind], &key);
                let _ = channel.handle_frame(now, &octets);
            }
            5 => {
                let octets = vec![1; usize::from(choices.short())];
                let _ = channel.write(&octets);
            }
            6 => {
                let mut into = vec![0; usize::from(choices.short())];
                if let Ok(Read::Octets(count)) = channel.read(&mut into) {
                    assert!((1..=into.len()).contains(&count));
                }
            }
            7 => now += Duration::from_millis(choices.octet().into()),
            8 => channel.set_mtu(choices.short().min(1500)),
            9 => channel.finish(),
            10 => channel.reset(),
            _ => {
                let most = choices.below(64);
                let octets = choices.octets(most);
                assert!(channel.handle_frame(now, octets).is_err());
            }
        }
        channel.handle_timeout(now);
        send(now, &mut channel, &key);
        assert!(channel.readable() <= WINDOW_BYTES.into());
    }
}

/// A frame with a right tag and otherwise arbitrary fields.
fn made(choices: &mut Choices<'_>, kind: Kind, key: &Key) -> Vec<u8> {
    let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let mut header = Header {
        kind,
        channel: CHANNEL,
        offset: choices.number(),
        acked: choices.number(),
        credit: small(choices.number()),
        ranges: [None; MAX_RANGES],
    };
    for _ in 0..choices.below(MAX_RANGES + 1) {
        let start = NonZeroU32::new(small(choices.number()));
        let end = small(choices.number());
        let range = start.map(|start| Range { start, end });
        if let Some(place) = header.ranges.iter_mut().find(|place| place.is_none()) {
            *place = range;
        }
    }
    let length = choices.short() % 1500;
    let mut octets = vec![2; header.encoded_bytes() + usize::from(length)];
    let Some(all) = header.encode(length, key, Side::Helper, &mut octets) else {
        panic!("no room in {} octets", octets.len());
    };
    assert_eq!(all, octets.len());
    if let Ok(frame) = frame::decode(&octets, CHANNEL, key, Side::Helper) {
        assert_eq!(frame.header, header);
        assert_eq!(frame.payload.len(), usize::from(length));
    }
    // Nobody accepts his own frames.
    assert!(frame::decode(&octets, CHANNEL, key, Side::Primary).is_err());
    octets
}

/// Takes all frames from the channel: well-formed ones, no longer than the MTU.
fn send(now: Timestamp, channel: &mut Channel, key: &Key) {
    let mut into = [0; 1500];
    for _ in 0..MAX_FRAMES {
        let Some(length) = channel.poll_frame(now, &mut into) else {
            return;
        };
        let sent = into.get(..length).unwrap_or_default();
        let read = frame::decode(sent, CHANNEL, key, Side::Primary);
        assert!(read.is_ok(), "{read:?} of {sent:?}");
    }
    panic!("a channel that sends without end");
}
