//! Segments of own paths over which only small packets pass.

use mpbond_manager::{Action, Config, DialId, ENOUGH_BYTES, Link, LinkId, Notice, SEGMENT_BYTES};
use mpbond_session::SubflowId;

use crate::bench::{Bench, ms, notices};

const PATH: LinkId = LinkId(0);

fn one_path() -> (Bench, SubflowId) {
    let mut b = Bench::new(Config::new(vec![Link::path("own")]));
    let (dial, _) = b.dial();
    let subflow = b.joined(dial);
    b.pass(ms(60_000));
    assert_eq!(b.manager.max_segment_bytes(PATH), None);
    (b, subflow)
}

/// The connection falls silent and is dialled anew; the attempt.
fn again(b: &mut Bench, stuck: SubflowId, octets: u64, idle_s: u64) -> (DialId, Vec<Notice>) {
    b.stuck_after(stuck, octets, ms(idle_s * 1_000));
    let actions = b.actions();
    let dial = actions.iter().find_map(|a| match a {
        Action::Dial { dial, .. } => Some(*dial),
        _ => None,
    });
    (dial.unwrap(), notices(&actions))
}

#[test]
fn connections_that_fall_silent_before_64_kib_get_1220_then_536_octets_then_no_limit_again() {
    let (mut b, mut subflow) = one_path();
    for limit in [Some(1_220), Some(536), None, Some(1_220)] {
        let (dial, told) = again(&mut b, subflow, ENOUGH_BYTES - 1, 5);
        assert_eq!(b.manager.max_segment_bytes(PATH), limit);
        let notice = limit.map(|bytes| Notice::SmallerSegments { link: PATH, bytes });
        assert_eq!(told, Vec::from_iter(notice));
        subflow = b.joined(dial);
        // Longer than the pause between replacements.
        b.pass(ms(6_000));
    }
    assert_eq!(SEGMENT_BYTES, [1_220, 536]);
}

#[test]
fn a_limit_with_which_more_arrives_is_kept_until_the_network_changes() {
    let (mut b, subflow) = one_path();
    let (dial, _) = again(&mut b, subflow, 3_000, 0);
    let subflow = b.joined(dial);
    b.pass(ms(60_000));
    let (dial, told) = again(&mut b, subflow, ENOUGH_BYTES, 0);
    assert_eq!(told, []);
    assert_eq!(b.manager.max_segment_bytes(PATH), Some(1_220));
    b.joined(dial);
    b.pass(ms(60_000));
    b.manager.handle_slept(b.now, ms(60_000));
    assert_eq!(b.manager.max_segment_bytes(PATH), None);
}

#[test]
fn what_a_nat_forgets_says_nothing_about_segments() {
    let (mut b, subflow) = one_path();
    let (_, told) = again(&mut b, subflow, 3_000, 10);
    assert_eq!(told, []);
    assert_eq!(b.manager.max_segment_bytes(PATH), None);
}

#[test]
fn a_path_that_the_proxy_gives_up_before_64_kib_is_joined_with_smaller_segments() {
    for (octets, limit) in [(ENOUGH_BYTES, None), (ENOUGH_BYTES - 1, Some(1_220))] {
        let (mut b, subflow) = one_path();
        b.manager.handle_subflow_cut(b.now, subflow, octets);
        b.closed(subflow);
        b.pass(ms(100));
        assert_eq!(b.manager.max_segment_bytes(PATH), limit);
    }
}
