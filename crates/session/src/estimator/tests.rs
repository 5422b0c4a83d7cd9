//! Tests of the estimates of one subflow.

use super::*;

const MB: f64 = 1e6;

fn ms(v: u64) -> Timestamp {
    Timestamp::from_millis(v)
}

fn info(bytes_arrived: u64, rate: f64) -> PathInfo {
    PathInfo {
        cwnd_bytes: 50_000,
        srtt: Duration::from_millis(50),
        min_rtt: Duration::from_millis(50),
        bytes_arrived,
        delivery_rate: BitRate::from_bytes_per_sec(rate),
        app_limited: false,
        slow_start: false,
        bytes_acked: 0,
        all_acked: false,
    }
}

#[test]
fn what_arrived_out_of_order_may_have_been_less() {
    let mut e = Estimator::new(true, FeedbackRule::HelperRadio);
    for (at, arrived) in [(0, 10_000), (10, 9_000), (20, 12_000)] {
        e.on_path(ms(at), info(arrived, MB));
    }
    assert_eq!(e.taken_at(ms(5)), 10_000);
    assert_eq!(e.taken_at(ms(15)), 11_000);
    assert_eq!(e.taken_at(ms(30)), 12_000);
}

#[test]
fn first_estimate_is_cwnd_over_rtt() {
    let mut e = Estimator::new(false, FeedbackRule::HelperRadio);
    e.on_path(
        ms(0),
        PathInfo {
            delivery_rate: BitRate::ZERO,
            ..info(0, 0.0)
        },
    );
    assert_eq!(e.throughput(ms(0)), BitRate::from_bytes_per_sec(MB));
    // 100 kB in flight at 1 MB/s, 25 ms of it received without our knowing.
    assert_eq!(e.b_near(ms(0), 100_000), 75_000);
    assert_eq!(
        e.pad(ms(0), 100_000, 0, BufferDelay::Estimated),
        Duration::from_millis(100)
    );
}

/// An estimator whose near hop has shown 1 MB/s, by 10 ms and 10 kB.
fn measured() -> Estimator {
    let mut e = Estimator::new(false, FeedbackRule::HelperRadio);
    e.on_path(ms(0), info(0, MB));
    e.on_path(ms(10), info(10_000, MB));
    e
}

#[test]
fn nothing_of_what_is_written_after_a_pause_is_under_way_from_before() {
    let mut e = measured();
    e.owes_again(ms(5_000), 10_000);
    assert_eq!(e.b_near(ms(5_000), 110_000), 100_000);
    assert_eq!(e.b_near(ms(5_020), 110_000), 80_000);
}

#[test]
fn the_first_sample_after_slow_start_does_not_lower_a_measured_rate() {
    let mut e = measured();
    let starting = PathInfo {
        slow_start: true,
        ..info(20_000, 0.4 * MB)
    };
    e.on_path(ms(5_000), starting);
    e.on_path(ms(5_040), info(60_000, 0.5 * MB));
    assert_eq!(e.near_throughput(ms(5_040)).bytes_per_sec(), MB);
    e.on_path(ms(5_060), info(90_000, 0.6 * MB));
    assert!(e.near_throughput(ms(5_060)).bytes_per_sec() < 0.61 * MB);
}

#[test]
fn a_link_is_busy_with_the_octets_of_a_round_trip_once_one_is_measured() {
    let mut e = Estimator::new(false, FeedbackRule::HelperRadio);
    assert!(!e.keep_busy(ms(0), 1 << 30));
    // 1 MB/s for 50 ms.
    e.on_path(ms(0), info(0, MB));
    assert!(!e.keep_busy(ms(0), 49_000) && e.keep_busy(ms(0), 51_000));
}

#[test]
fn app_limited_samples_only_raise() {
    let mut e = Estimator::new(false, FeedbackRule::HelperRadio);
    e.on_path(ms(0), info(0, MB));
    e.on_path(
        ms(1_000),
        PathInfo {
            app_limited: true,
            ..info(1_000, 0.1 * MB)
        },
    );
    assert!(e.throughput(ms(1_000)).bytes_per_sec() > 0.99 * MB);
    e.on_path(
        ms(2_000),
        PathInfo {
            app_limited: true,
            ..info(2_000, 2.0 * MB)
        },
    );
    assert!(e.throughput(ms(2_000)).bytes_per_sec() > 1.9 * MB);
}

#[test]
fn a_sample_of_before_an_idle_time_is_not_measured_again() {
    let mut e = Estimator::new(false, FeedbackRule::HelperRadio);
    for (at, rate) in [(0, MB), (50, 1.1 * MB), (100, MB)] {
        e.on_path(ms(at), info(at, rate));
    }
    // The last flight of a transfer is slow. Five seconds later the kernel still shows its sample.
    e.on_path(ms(101), info(20_000, 0.05 * MB));
    e.on_path(ms(5_000), info(21_000, 0.05 * MB));
    assert!(e.throughput(ms(5_000)).bytes_per_sec() > 0.9 * MB);
    e.on_path(ms(5_050), info(40_000, 0.06 * MB));
    assert!(
        e.throughput(ms(5_050)).bytes_per_sec() < 0.1 * MB,
        "measured"
    );
}

/// A helper that takes 1 MB/s and hands on 0.5 MB/s: the counts give pace and backlog.
#[test]
fn a_backlogged_helper_shows_its_pace() {
    let mut e = Estimator::new(true, FeedbackRule::HelperRadio);
    for t in (0..1_000).step_by(25) {
        e.on_path(ms(t), info(t * 1_000, MB));
        e.on_count(t * 500, ms(t), ms(t + 77_000));
    }
    let now = ms(975);
    let far = e.far_throughput(now).unwrap().bytes_per_sec();
    assert!((far - 0.5 * MB).abs() < 0.02 * MB, "{far}");
    let (sent, acked) = (975_000, 487_500);
    let b_far = e.b_far(now, sent, acked) as f64;
    assert!((b_far - 487_500.0).abs() < 30_000.0, "{b_far}");
    // It drains while nothing is heard.
    let later = e.b_far(ms(1_175), sent, acked) as f64;
    assert!((b_far - later - 100_000.0).abs() < 30_000.0, "{later}");
}

/// The counts of a pipe of 0.5 MB/s stand still from 500 to 600 ms, and catch up by 650.
#[test]
fn what_a_repaired_loss_releases_is_no_faster_than_a_train() {
    let after_a_loss = |paced: bool| {
        let mut e = Estimator::new(true, FeedbackRule::HelperRadio);
        let mut most: f64 = 0.0;
        for t in (0..1_000).step_by(25) {
            e.on_path(ms(t), info(t * 1_000, MB));
            if paced {
                e.on_pace(ms(t), BitRate::from_bytes_per_sec(0.5 * MB));
            }
            let counted = match t {
                500..600 => 500,
                600..650 => 520,
                _ => t,
            };
            e.on_count(counted * 500, ms(t), ms(t + 77_000));
            if t >= 600 {
                most = most.max(e.far_throughput(ms(t)).unwrap().bytes_per_sec());
            }
        }
        most
    };
    assert!(after_a_loss(true) <= 0.5 * MB, "{}", after_a_loss(true));
    assert!(after_a_loss(false) > 0.55 * MB, "{}", after_a_loss(false));
}

/// After an idle time nothing has left the helper yet but what was sent since.
#[test]
fn an_idle_helper_drains_nothing() {
    let mut e = Estimator::new(true, FeedbackRule::HelperRadio);
    for t in (0..1_000).step_by(25) {
        e.on_path(ms(t), info(t * 1_000, MB));
        e.on_count(t * 500, ms(t), ms(t));
    }
    // All arrives, and nothing is sent for 5 s; then 200 kB, which the helper has at once.
    e.on_path(ms(2_000), info(975_000, MB));
    e.on_count(975_000, ms(2_000), ms(2_000));
    e.owes_again(ms(7_000), 0);
    e.on_path(ms(7_100), info(1_175_000, MB));
    // It has had the first of them for 75 ms.
    let b_far = e.b_far(ms(7_100), 1_175_000, 975_000) as f64;
    assert!((b_far - 162_500.0).abs() < 5_000.0, "{b_far}");
}

#[test]
fn a_measured_delay_stands_for_the_backlog() {
    let mut e = Estimator::new(true, FeedbackRule::HelperRadio);
    for t in (0..1_000).step_by(25) {
        e.on_path(ms(t), info(t * 1_000, MB));
        e.on_count(t * 500, ms(t), ms(t));
    }
    let now = ms(975);
    let (sent, acked) = (975_000, 487_500);
    let pad = |e: &Estimator, way| e.pad(now, sent, acked, way).as_secs_f64();
    // A second's worth of backlog at half of the near hop's pace.
    let estimated = pad(&e, BufferDelay::Estimated);
    assert!((estimated - 1.0).abs() < 0.1, "{estimated}");
    // Nothing was measured yet, whatever counts say.
    let measured = pad(&e, BufferDelay::Measured);
    assert!(measured < 0.1, "{measured}");
    for (sojourn, wait) in [(Some(300), 0.3), (None, 0.3), (Some(20), 0.02)] {
        let report = FarReport {
            sojourn: sojourn.map(Duration::from_millis),
            ..FarReport::default()
        };
        e.on_far_report(now, report);
        let more = pad(&e, BufferDelay::Measured) - measured;
        assert!((more - wait).abs() < 1e-3, "{more} for {wait}");
    }
    assert_eq!(pad(&e, BufferDelay::Estimated), estimated);
}

/// Under a published feedback rule only reports tell of the pipe; between two of them the level
/// follows from what the helper has taken and what the pipe carries.
#[test]
fn reports_alone_tell_of_a_pipe() {
    let mut e = Estimator::new(true, FeedbackRule::FixedOnDemand);
    for t in (0..1_000).step_by(25) {
        e.on_path(ms(t), info(t * 1_000, MB));
        e.on_count(t * 500, ms(t), ms(t));
        e.on_pace(ms(t), BitRate::from_bytes_per_sec(0.5 * MB));
    }
    let now = ms(975);
    assert_eq!(e.far_throughput(now), None);
    // Without any report, what was not acknowledged may all be there.
    assert!(e.b_far(now, 975_000, 487_500) >= 487_500);
    let report = FarReport {
        throughput: BitRate::from_bytes_per_sec(0.25 * MB),
        level_bytes: 100_000,
        age: Duration::from_millis(75),
        ..FarReport::default()
    };
    e.on_far_report(now, report);
    assert_eq!(
        e.far_throughput(now),
        Some(BitRate::from_bytes_per_sec(0.25 * MB))
    );
    // 75 ms later: 75 kB more have come, of which 25 kB are not acknowledged, and 19 kB gone.
    let b_far = e.b_far(now, 1_000_000, 0) as f64;
    assert!((b_far - 156_250.0).abs() < 1_000.0, "{b_far}");
}

#[test]
fn a_helper_that_keeps_up_stays_unlimited() {
    let mut e = Estimator::new(true, FeedbackRule::HelperRadio);
    for t in (0..1_000).step_by(25) {
        e.on_path(ms(t), info(t * 1_000, MB));
        e.on_count((t * 1_000).saturating_sub(2_000), ms(t), ms(t));
    }
    assert_eq!(e.far_throughput(ms(975)), None);
    assert!(!e.unproven_is_full(ms(975), 975_000, 973_000));
}

/// At 2 Mbit/s and 50 ms, a queue of 100 ms overflows with 37 kB on the way.
#[test]
fn a_slow_near_hop_is_full_before_its_queue_overflows() {
    let mut e = Estimator::new(false, FeedbackRule::HelperRadio);
    e.on_path(ms(0), info(0, 0.25 * MB));
    e.on_path(ms(1), info(1, 0.25 * MB));
    assert!(!e.near_is_full(ms(1), 20_000, 0));
    assert!(e.near_is_full(ms(1), 31_000, 0));
    assert!(!e.near_is_full(ms(1), 31_000, 31_000), "the peer has it");
}

#[test]
fn what_is_old_is_forgotten() {
    let mut e = Estimator::new(true, FeedbackRule::HelperRadio);
    e.on_path(ms(0), info(0, MB));
    e.on_far_report(
        ms(0),
        FarReport {
            throughput: BitRate::from_mbps(5.0),
            ..FarReport::default()
        },
    );
    assert!(e.far_throughput(ms(599_000)).is_some());
    assert!(e.far_throughput(ms(601_000)).is_none());
}

#[test]
fn a_path_through_a_helper_that_has_shown_no_rate_is_owed_little() {
    let mut e = Estimator::new(true, FeedbackRule::HelperRadio);
    e.on_path(ms(0), info(0, MB));
    e.owes_again(ms(0), 0);
    assert!(!e.unproven_is_full(ms(50), 43_440, 0));
    assert!(e.unproven_is_full(ms(50), 43_441, 0));
    // As much again as was acknowledged, and what replaces that.
    e.on_count(14_000, ms(60), ms(60));
    assert!(!e.unproven_is_full(ms(60), 71_440, 14_000));
    assert!(e.unproven_is_full(ms(60), 71_441, 14_000));
    // A report of a socket that is starting shows nothing, a flight does.
    let report = FarReport {
        throughput: BitRate::from_mbps(5.0),
        ..FarReport::default()
    };
    e.on_far_report(ms(70), report);
    assert!(e.unproven_is_full(ms(70), 72_000, 14_000));
    e.on_pace(ms(80), BitRate::from_mbps(5.0));
    assert!(!e.unproven_is_full(ms(80), 99_000, 14_000));
}

/// What may be owed over a path that has shown no rate.
fn allowed(e: &Estimator, now: Timestamp, acked: u64) -> u64 {
    let may = |owed: &u64| !e.unproven_is_full(now, acked + owed, acked);
    (0..10_000).map(|n| n << 10).take_while(may).last().unwrap()
}

/// Over a path without delay, one ACK takes all that the bound allows, so that nothing is owed when
/// the next octets are written.
#[test]
fn the_bound_of_a_path_without_a_rate_widens_by_42_kib_though_each_ack_takes_all() {
    for (pause, all) in [(0, [42, 84, 126, 168]), (300, [42; 4])] {
        let mut e = Estimator::new(true, FeedbackRule::HelperRadio);
        e.on_path(ms(0), info(0, MB));
        let (mut now, mut sent) = (0, 0);
        for kib in all {
            e.owes_again(ms(now), sent);
            assert_eq!(allowed(&e, ms(now), sent), kib << 10, "{pause}");
            sent += kib << 10;
            now += 25;
            e.on_count(sent, ms(now), ms(now));
            e.owes_nothing(ms(now));
            now += pause;
        }
        assert_eq!(e.far_throughput(ms(now)), None);
    }
}

/// Bursts that leave nothing owed show no more than one of them, and nothing after a pause, though
/// ACKs for another path tell the same count.
#[test]
fn the_bound_of_a_path_without_a_rate_does_not_widen_by_bursts_of_30_kb() {
    let mut e = Estimator::new(true, FeedbackRule::HelperRadio);
    e.on_path(ms(0), info(0, MB));
    let (mut now, mut sent) = (0, 0);
    for burst in 0..250 {
        e.owes_again(ms(now), sent);
        let most = 43_440 + if burst == 0 { 0 } else { 30_000 };
        let may = allowed(&e, ms(now), sent);
        assert_eq!(may, most & !1_023, "burst {burst}");
        sent += 30_000;
        e.on_count(sent, ms(now + 10), ms(now + 10));
        e.owes_nothing(ms(now + 10));
        e.on_count(sent, ms(now + 110), ms(now + 110));
        e.on_count(sent, ms(now + 210), ms(now + 210));
        now += 240;
    }
    for _ in 0..600 {
        e.on_count(sent, ms(now), ms(now));
        now += 100;
    }
    e.owes_again(ms(now), sent);
    assert_eq!(allowed(&e, ms(now), sent), 42 << 10);
    assert_eq!(e.far_throughput(ms(now)), None);
}

/// Octets of acknowledgements that were sent while nothing was owed.
#[test]
fn the_bound_of_a_path_without_a_rate_does_not_widen_by_acknowledgements() {
    let mut e = Estimator::new(true, FeedbackRule::HelperRadio);
    e.on_path(ms(0), info(0, MB));
    e.owes_again(ms(0), 0);
    e.on_count(20_480, ms(10), ms(10));
    e.owes_nothing(ms(10));
    for at in (20..200).step_by(10) {
        e.on_count(20_480 + at * 100, ms(at), ms(at));
    }
    let acked = 20_480 + 19_000;
    e.owes_again(ms(200), acked);
    assert_eq!(allowed(&e, ms(200), acked), 62 << 10);
}

/// Through a helper whose far hop passes on a number of bytes in a millisecond, with a round trip
/// of 14 ms. It holds 20 kB: fewer than count as a backlog of a fast hop.
#[test]
fn a_slow_far_hop_shows_its_rate_before_much_waits() {
    for (rate, is_shown) in [(125, true), (400, true), (600, false)] {
        let mut e = Estimator::new(true, FeedbackRule::HelperRadio);
        let report = FarReport {
            rtt: Duration::from_millis(14),
            ..FarReport::default()
        };
        e.on_far_report(ms(0), report);
        for t in (0..300).step_by(10) {
            e.on_path(ms(t), info(20_000 + t * rate, MB));
            e.on_count(t * rate, ms(t), ms(t));
        }
        let shown = e.far_throughput(ms(300)).map(BitRate::bytes_per_sec);
        let expected = is_shown.then_some(rate as f64 * 1e3);
        assert_eq!(shown.map(f64::round), expected, "{rate} B/ms");
    }
}

/// As published, a helper's reports tell the far hop's rate. Before the first one, there is none by
/// which a limit could be computed, and a limit of zero would hold back everything for ever.
#[test]
fn a_helper_that_has_not_reported_is_not_full() {
    let mut e = Estimator::new(true, FeedbackRule::Flexible);
    e.on_path(ms(0), info(0, MB));
    let bound = Duration::from_millis(200);
    assert!(!e.far_is_full(ms(10), 100_000, 0, bound));
    let report = FarReport {
        throughput: BitRate::from_mbps(0.08),
        ..FarReport::default()
    };
    e.on_far_report(ms(20), report);
    assert!(e.far_is_full(ms(20), 100_000, 0, bound));
}

/// Between a primary and a helper that passes on 5 MB/s, while the other end sees 10.
#[test]
fn a_flow_that_is_starting_has_a_measured_rate_once_it_queues() {
    let starting = |bytes, srtt| PathInfo {
        slow_start: true,
        srtt: Duration::from_millis(srtt),
        min_rtt: Duration::from_millis(20),
        // Each sample is another one.
        ..info(bytes, 5.0 * MB + bytes as f64)
    };
    // The round-trip time before the transfer, during it, and the resulting rate in MB/s.
    for (before, during, expected) in [(20, 30, 10.0), (20, 50, 5.0), (40, 50, 10.0)] {
        let mut e = Estimator::new(true, FeedbackRule::HelperRadio);
        e.on_path(ms(0), starting(0, before));
        e.on_path(ms(1_000), starting(1_000, before));
        e.owes_again(ms(1_010), 0);
        e.on_path(ms(1_050), starting(50_000, during));
        e.on_pace(ms(1_060), BitRate::from_bytes_per_sec(10.0 * MB));
        let rate = e.near_throughput(ms(1_060)).bytes_per_sec() / MB;
        assert!((rate - expected).abs() < 0.1, "{before}, {during}: {rate}");
    }
    // Of a second ago: nothing is known of a queue before.
    let mut e = Estimator::new(true, FeedbackRule::HelperRadio);
    e.on_path(ms(0), starting(0, 40));
    e.on_path(ms(10), starting(1_000, 40));
    e.owes_again(ms(1_010), 0);
    e.on_path(ms(1_050), starting(50_000, 50));
    e.on_pace(ms(1_060), BitRate::from_bytes_per_sec(10.0 * MB));
    assert!(e.near_throughput(ms(1_060)).bytes_per_sec() < 5.1 * MB);
}
