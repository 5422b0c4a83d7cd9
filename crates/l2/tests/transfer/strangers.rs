//! Two ends whose frames a stranger holds back, sends again, or sends with another payload.

use std::time::Duration;

use mpbond_l2::{Channel, Config, Error, Key, MIN_WINDOW_BYTES, Read, SILENCE, Side};
use mpbond_units::Timestamp;

const STEP: Duration = Duration::from_millis(5);
const START: Timestamp = Timestamp::from_millis(1);

fn channel(side: Side) -> Channel {
    let config = Config {
        channel: 7,
        key: Key::from_bytes([3; 16]),
        side,
        mtu: 1500,
        window_bytes: MIN_WINDOW_BYTES,
    };
    Channel::new(START, config)
}

fn frames(now: Timestamp, from: &mut Channel) -> Vec<Vec<u8>> {
    from.handle_timeout(now);
    let mut into = vec![0; 1500];
    std::iter::from_fn(|| from.poll_frame(now, &mut into).map(|n| into[..n].to_vec())).collect()
}

/// Delivers frames in both directions until there are none; returns them, by direction.
fn exchange(now: Timestamp, ends: &mut [Channel; 2]) -> [Vec<Vec<u8>>; 2] {
    let mut all = [Vec::new(), Vec::new()];
    loop {
        let mut is_idle = true;
        for n in [0, 1] {
            for frame in frames(now, &mut ends[n]) {
                is_idle = false;
                ends[1 - n].handle_frame(now, &frame).unwrap();
                all[n].push(frame);
            }
        }
        if is_idle {
            return all;
        }
    }
}

/// A primary that has more to send than the helper, which reads nothing, has credit for; and the
/// last frame of the helper.
fn blocked() -> ([Channel; 2], Vec<u8>) {
    let mut ends = [channel(Side::Primary), channel(Side::Helper)];
    let window = vec![1; MIN_WINDOW_BYTES as usize];
    assert_eq!(ends[0].write(&window), Ok(window.len()));
    let mut last = Vec::new();
    for n in 0..20 {
        let [_, answers] = exchange(START + STEP * n, &mut ends);
        last = answers.into_iter().next_back().unwrap_or(last);
    }
    assert_eq!(ends[0].write(&window), Ok(window.len()));
    (ends, last)
}

#[test]
fn an_acknowledgement_that_is_sent_again_does_not_hide_that_the_peer_is_gone() {
    let ([mut primary, _], ack) = blocked();
    let start = START + STEP * 20;
    let mut now = start;
    while primary.error().is_none() && now < start + Duration::from_secs(60) {
        now += STEP;
        if (now.since(start).as_millis()).is_multiple_of(190) {
            primary.handle_frame(now, &ack).unwrap();
        }
        frames(now, &mut primary);
    }
    assert_eq!(primary.error(), Some(Error::Stalled));
    assert!(now < start + Duration::from_secs(1), "{now}");
}

/// As above, where the end has nothing to send.
#[test]
fn frames_that_are_sent_again_do_not_keep_an_idle_channel() {
    let mut ends = [channel(Side::Primary), channel(Side::Helper)];
    let [_, answers] = exchange(START, &mut ends);
    let [mut primary, _] = ends;
    let mut now = START;
    while primary.error().is_none() && now < START + Duration::from_secs(120) {
        now += STEP;
        if (now.since(START).as_millis()).is_multiple_of(190) {
            primary.handle_frame(now, &answers[0]).unwrap();
        }
        frames(now, &mut primary);
    }
    assert_eq!(primary.error(), Some(Error::Stalled));
    assert!(now < START + Duration::from_secs(31), "{now}");
}

#[test]
fn questions_to_a_peer_without_credit_become_rarer_and_credit_ends_them() {
    let (mut ends, _) = blocked();
    let mut times = Vec::new();
    let start = START + STEP * 20;
    for n in 0..12_000 {
        let now = start + STEP * n;
        let [questions, answers] = exchange(now, &mut ends);
        assert_eq!(questions.len(), answers.len());
        if !questions.is_empty() {
            times.push(now.since(start).as_millis());
        }
    }
    assert!((190..=205).contains(&times[0]), "{times:?}");
    // 0.2, 0.6, 1.4, 3.0 s, and then each 3.2 s.
    assert!((19..=23).contains(&times.len()), "{times:?}");
    let now = start + STEP * 12_000;
    let mut into = [0; MIN_WINDOW_BYTES as usize];
    assert_eq!(ends[1].read(&mut into), Ok(Read::Octets(into.len())));
    exchange(now, &mut ends);
    assert_eq!(ends[1].readable(), u64::from(MIN_WINDOW_BYTES));
}

#[test]
fn a_helper_that_no_primary_calls_gives_up() {
    let mut ends = [channel(Side::Helper), channel(Side::Helper)];
    ends[0].write(b"never").unwrap();
    for n in 0..2_500 {
        // Frames of the own side are refused, so nothing is delivered.
        for end in &mut ends {
            frames(START + STEP * n, end);
        }
    }
    for end in &ends {
        assert_eq!(end.error(), Some(Error::Silent));
    }
}

#[test]
fn a_frame_that_is_sent_again_with_another_payload_replaces_nothing() {
    let mut ends = [channel(Side::Primary), channel(Side::Helper)];
    exchange(START, &mut ends);
    ends[0].write(&[1; 4_000]).unwrap();
    let sent = frames(START, &mut ends[0]);
    let [first, second, third] = &sent[..] else {
        panic!("{} frames", sent.len());
    };
    ends[1].handle_frame(START, third).unwrap();
    for frame in [third, second] {
        let mut forged = frame.clone();
        forged[36..].fill(0xee);
        if frame == second {
            ends[1].handle_frame(START, second).unwrap();
        }
        ends[1].handle_frame(START, &forged).unwrap();
    }
    ends[1].handle_frame(START, first).unwrap();
    // A full frame is as long as the MTU.
    assert_eq!(first.len(), 1500);
    let mut into = [0; 4_000];
    assert_eq!(ends[1].read(&mut into), Ok(Read::Octets(4_000)));
    assert!(into.iter().all(|octet| *octet == 1));
}

/// A RESET that is lost: an end that is owed nothing notices it when it asks.
#[test]
fn a_lost_reset_is_noticed_when_an_idle_end_asks() {
    let mut ends = [channel(Side::Primary), channel(Side::Helper)];
    exchange(START, &mut ends);
    ends[0].reset();
    assert_eq!(frames(START, &mut ends[0]).len(), 1);
    let mut now = START;
    while ends[1].error().is_none() && now < START + Duration::from_secs(60) {
        now += STEP;
        exchange(now, &mut ends);
    }
    assert_eq!(ends[1].error(), Some(Error::Silent));
    assert!(now < START + Duration::from_secs(31) + SILENCE, "{now}");
}
