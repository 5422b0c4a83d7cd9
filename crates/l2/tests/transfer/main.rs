//! Transfers between two ends in virtual time, over a link that loses, repeats, reorders and
//! changes frames, and to which a stranger adds frames of its own.
#![allow(clippy::unwrap_used, clippy::panic)] // test code

mod link;
mod peers;
mod strangers;

use std::time::Duration;

use mpbond_l2::{Error, SILENCE};
use proptest::prelude::*;

use link::Faults;
use peers::{Peers, Plan};

const CALM: Faults = Faults {
    lost: 0.0,
    repeated: 0.0,
    late: 0.0,
    changed: 0.0,
};

fn plan(seed: u64) -> Plan {
    Plan {
        seed,
        bytes: [300_000, 300_000],
        window_bytes: 64 << 10,
        mtu: 1500,
        delay: Duration::from_micros(200),
        faults: CALM,
        pauses: false,
        forged: false,
    }
}

#[test]
fn without_faults_nothing_is_sent_again_and_few_acknowledgements_are_sent() {
    let mut peers = Peers::new(Plan {
        bytes: [10_000_000, 0],
        window_bytes: 1 << 20,
        ..plan(1)
    });
    peers.run();
    peers.assert_complete();
    let [data, acks] = peers.frames();
    // 10 MB in frames of 1464 octets of payload; a write of random length ends with a
    // shorter one.
    assert!((6_830..7_500).contains(&data), "{data}");
    // One each 64 KiB.
    assert!((120..=200).contains(&acks), "{acks}");
    assert_eq!(peers.repeated(), [0, 0]);
}

#[test]
fn at_a_loss_of_one_per_cent_a_tenth_more_than_the_loss_is_sent_again() {
    let mut peers = Peers::new(Plan {
        bytes: [20_000_000, 0],
        window_bytes: 1 << 20,
        faults: Faults { lost: 0.01, ..CALM },
        ..plan(2)
    });
    peers.run();
    peers.assert_complete();
    let share = peers.repeated()[0] as f64 / peers.frames()[0] as f64;
    assert!((0.008..0.013).contains(&share), "{share}");
}

/// Both ends of one that carries data in one direction only: who has sent is who gives up.
#[test]
fn a_loss_above_one_per_cent_ends_a_channel_that_is_told_to_look_at_it() {
    let run = |lost| {
        let mut peers = Peers::new(Plan {
            bytes: [20_000_000, 0],
            window_bytes: 1 << 20,
            faults: Faults { lost, ..CALM },
            ..plan(10)
        });
        peers.fail_at_loss();
        peers.run();
        peers
    };
    run(0.003).assert_complete();
    let lossy = run(0.03);
    assert_eq!(lossy.failure(0).map(|(error, _)| error), Some(Error::Lossy));
    assert_eq!(lossy.failure(1).map(|(error, _)| error), Some(Error::Reset));
}

/// A link that carries no data for less than the silence after which a channel is given up has lost
/// one window.
#[test]
fn an_outage_is_one_loss() {
    let mut peers = Peers::new(Plan {
        bytes: [20_000_000, 0],
        window_bytes: 1 << 20,
        ..plan(12)
    });
    peers.fail_at_loss();
    peers.run_until(Duration::from_millis(40));
    peers.drop_longer_than(100);
    peers.run_until(Duration::from_millis(200));
    peers.drop_longer_than(usize::MAX);
    peers.run();
    peers.assert_complete();
    assert!(peers.repeated()[0] > 20, "{:?}", peers.repeated());
}

/// All frames of a window are sent again, which says nothing of the link.
#[test]
fn a_smaller_mtu_of_the_own_interface_is_no_loss() {
    let mut peers = Peers::new(Plan {
        bytes: [20_000_000, 0],
        window_bytes: 1 << 20,
        ..plan(11)
    });
    peers.fail_at_loss();
    peers.run_until(Duration::from_millis(2));
    peers.set_mtu(1000);
    peers.run();
    peers.assert_complete();
    assert!(peers.repeated()[0] > 20, "{:?}", peers.repeated());
}

#[test]
fn a_reader_that_pauses_stops_the_sender_and_no_octet_is_sent_again() {
    let mut peers = Peers::new(Plan {
        pauses: true,
        ..plan(3)
    });
    peers.run();
    peers.assert_complete();
    assert!(
        peers.longest_pause() > SILENCE,
        "{:?}",
        peers.longest_pause()
    );
    assert_eq!(peers.repeated(), [0, 0]);
}

/// The link breaks in the middle: both ends that owe something give up after 300 ms, and what was
/// read is a prefix.
#[test]
fn a_peer_that_falls_silent_is_given_up_after_300_ms() {
    let mut peers = Peers::new(Plan {
        bytes: [3_000_000, 3_000_000],
        ..plan(4)
    });
    peers.run_until(Duration::from_millis(10));
    let at = peers.cut();
    peers.run();
    for end in [0, 1] {
        let (error, when) = peers.failure(end).unwrap();
        assert_eq!(error, Error::Silent);
        let took = when - at;
        assert!((280..=320).contains(&took.as_millis()), "{took:?}");
    }
}

#[test]
fn an_end_that_only_receives_notices_after_30_s_that_its_peer_has_gone() {
    let mut peers = Peers::new(Plan {
        bytes: [0, 3_000_000],
        ..plan(9)
    });
    peers.run_until(Duration::from_millis(10));
    let at = peers.cut();
    peers.run();
    let (error, when) = peers.failure(0).unwrap();
    assert_eq!(error, Error::Silent);
    let took = when - at;
    assert!((30_000..30_500).contains(&took.as_millis()), "{took:?}");
}

/// Small frames pass and large ones do not: an MTU on the way is smaller than that of both
/// interfaces.
#[test]
fn a_path_that_loses_every_large_frame_is_given_up() {
    let mut peers = Peers::new(plan(5));
    peers.drop_longer_than(1000);
    peers.run();
    let (first, error) = peers.first_failure().unwrap();
    assert_eq!(error, Error::Silent);
    let (_, at) = peers.failure(first).unwrap();
    assert!((0.3..0.4).contains(&at.as_secs_f64()), "{at}");
}

/// As after a suspension: all deadlines have passed, and the peer could not be heard.
#[test]
fn a_pause_of_this_host_is_not_a_silence_of_the_peer() {
    let mut peers = Peers::new(plan(8));
    peers.run_until(Duration::from_millis(10));
    peers.pause(Duration::from_secs(5));
    peers.run();
    peers.assert_complete();
}

/// As after a suspension in which the socket has kept the frames: acknowledgements look as if they
/// had taken a minute.
#[test]
fn a_pause_of_this_host_does_not_lengthen_the_silence_of_a_dead_peer_to_minutes() {
    let mut peers = Peers::new(Plan {
        bytes: [30_000_000, 30_000_000],
        ..plan(8)
    });
    peers.run_until(Duration::from_millis(10));
    peers.hold(Duration::from_secs(60));
    peers.run_until(Duration::from_millis(60_011));
    let at = peers.cut();
    peers.run();
    for end in [0, 1] {
        let (error, when) = peers.failure(end).unwrap();
        assert_eq!(error, Error::Silent);
        assert!(when - at < Duration::from_secs(5), "{:?}", when - at);
    }
}

#[test]
fn a_smaller_mtu_in_the_middle_of_a_transfer_costs_one_window() {
    let mut peers = Peers::new(plan(6));
    peers.run_until(Duration::from_millis(2));
    peers.set_mtu(1000);
    peers.drop_longer_than(1000);
    peers.run();
    peers.assert_complete();
}

#[test]
fn an_end_that_gives_up_is_noticed_at_once() {
    let mut peers = Peers::new(Plan {
        bytes: [3_000_000, 3_000_000],
        ..plan(7)
    });
    peers.run_until(Duration::from_millis(5));
    let at = peers.reset(0);
    peers.run();
    let (error, when) = peers.failure(1).unwrap();
    assert_eq!(error, Error::Reset);
    // Behind a window of frames.
    assert!(when - at < Duration::from_millis(10));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Nothing is lost, changed, repeated or out of order; both ends end. An end fails only when
    /// the link was silent to it.
    #[test]
    fn every_octet_arrives_once_and_in_order(
        seed: u64,
        lost in 0.0..0.2,
        repeated in 0.0..0.1,
        late in 0.0..0.2,
        changed in 0.0..0.05,
        bytes in [0_u64..200_000, 0_u64..200_000],
        window_bytes in 8_u32 << 10..100_000,
        mtu in 400_u16..9000,
        delay_us in 1_u64..20_000,
        pauses: bool,
        forged: bool,
    ) {
        let mut peers = Peers::new(Plan {
            seed,
            bytes,
            window_bytes,
            mtu,
            delay: Duration::from_micros(delay_us),
            faults: Faults { lost, repeated, late, changed },
            pauses,
            forged,
        });
        peers.run();
        peers.assert_prefix();
        match peers.first_failure() {
            None => peers.assert_complete(),
            Some((end, Error::Silent)) => prop_assert!(peers.was_silent_to(end)),
            // Eight time-outs take longer than the silence unless something arrives.
            Some((_, error)) => prop_assert!(lost > 0.05, "{error}"),
        }
    }
}
