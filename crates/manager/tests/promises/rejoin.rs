//! Sessions that take no new streams: when they are joined again, and over which links.

use mpbond_manager::{LinkId, REJOIN_EVERY, Rejoin, RejoinAction};
use mpbond_session::SubflowId;
use mpbond_session::SubflowState::{self, Backup, Express, Joining, PotentiallyFailed, Up};
use mpbond_units::Timestamp;

use crate::bench::ms;

/// A session that retires, at an instant, with its subflows.
struct Bench {
    rejoin: Rejoin,
    now: Timestamp,
    links: Vec<LinkId>,
    subflows: Vec<(SubflowId, SubflowState)>,
}

impl Bench {
    /// With so many links, and subflows in these states.
    fn new(links: usize, states: &[SubflowState]) -> Self {
        let numbered = states.iter().enumerate();
        Self {
            rejoin: Rejoin::default(),
            now: Timestamp::from_millis(1_000),
            links: (0..links).map(LinkId).collect(),
            subflows: numbered.map(|(n, s)| (SubflowId(n as u32), *s)).collect(),
        }
    }

    fn actions(&mut self) -> Vec<RejoinAction> {
        let (links, subflows) = (self.links.clone(), self.subflows.clone());
        self.rejoin.handle_state(self.now, links, subflows);
        std::iter::from_fn(|| self.rejoin.poll_action()).collect()
    }

    /// The links that are dialled now.
    #[track_caller]
    fn dials(&mut self) -> Vec<usize> {
        let number = |action: RejoinAction| match action {
            RejoinAction::Dial { link } => link.0,
            other => panic!("{other:?}"),
        };
        self.actions().into_iter().map(number).collect()
    }

    /// The same after so many milliseconds.
    #[track_caller]
    fn dials_after(&mut self, span: u64) -> Vec<usize> {
        self.now += ms(span);
        self.dials()
    }

    /// An attempt succeeds; the hello is not answered yet.
    fn joined(&mut self, link: usize) -> SubflowId {
        let id = SubflowId(100 + self.subflows.len() as u32);
        self.rejoin.handle_joined(LinkId(link), id);
        self.subflows.push((id, Joining));
        id
    }

    fn is_now(&mut self, id: SubflowId, state: SubflowState) {
        let found = self.subflows.iter_mut().find(|(other, _)| *other == id);
        found.unwrap().1 = state;
    }
}

#[test]
fn a_session_that_retires_is_not_joined_again_while_a_path_of_it_works() {
    for state in [Up, Backup] {
        let mut b = Bench::new(3, &[state, PotentiallyFailed]);
        assert_eq!(b.dials(), [0_usize; 0]);
        assert_eq!(b.rejoin.poll_timeout(), None);
    }
}

#[test]
fn when_the_last_path_of_a_session_that_retires_falls_silent_all_links_are_dialled_at_once() {
    for states in [
        &[PotentiallyFailed][..],
        &[PotentiallyFailed, PotentiallyFailed],
        &[Express, PotentiallyFailed],
        &[],
    ] {
        let mut b = Bench::new(3, states);
        assert_eq!(b.dials(), [0, 1, 2], "{states:?}");
    }
}

/// The limit of an attempt, 10 s, does not pass before another link is tried.
#[test]
fn a_dead_link_delays_no_other_and_one_that_fails_is_dialled_again_after_100_ms_to_1_s() {
    assert_eq!(REJOIN_EVERY, ms(1_000));
    let mut b = Bench::new(2, &[PotentiallyFailed]);
    assert_eq!(b.dials(), [0, 1]);
    // From the beginning of an attempt.
    for pause in [100, 200, 400, 800, 1_000, 1_000] {
        b.now += ms(30);
        b.rejoin.handle_not_joined(LinkId(1));
        assert_eq!(b.dials(), [0_usize; 0]);
        assert_eq!(b.rejoin.poll_timeout(), Some(b.now + ms(pause - 30)));
        assert_eq!(b.dials_after(pause - 30), [1]);
        assert_eq!(b.rejoin.poll_timeout(), None);
    }
    // One that failed after the pause is dialled at once, after more than 5 s with the shortest.
    b.now += ms(6_001);
    for pause in [0, 100, 200] {
        b.rejoin.handle_not_joined(LinkId(1));
        assert_eq!(b.dials_after(pause), [1]);
    }
}

#[test]
fn a_link_whose_hello_is_not_answered_is_dialled_again_when_the_session_has_given_it_up() {
    let mut b = Bench::new(2, &[PotentiallyFailed]);
    assert_eq!(b.dials(), [0, 1]);
    b.joined(0);
    b.now += ms(15_000);
    b.rejoin.handle_not_joined(LinkId(1));
    assert_eq!(b.dials(), [1]);
    b.subflows.pop();
    assert_eq!(b.dials(), [0]);
}

#[test]
fn a_path_that_answers_is_enough_and_later_ones_are_kept() {
    let mut b = Bench::new(3, &[PotentiallyFailed]);
    assert_eq!(b.dials(), [0, 1, 2]);
    let first = b.joined(1);
    b.is_now(first, Up);
    b.rejoin.handle_not_joined(LinkId(2));
    assert_eq!(b.dials_after(5_000), [0_usize; 0]);
    let late = b.joined(0);
    b.is_now(late, Up);
    assert_eq!(b.dials_after(5_000), [0_usize; 0]);
    assert_eq!(b.rejoin.poll_timeout(), None);
}

#[test]
fn a_silent_path_made_for_a_session_that_retires_is_dropped_when_another_one_answers() {
    let mut b = Bench::new(1, &[PotentiallyFailed]);
    assert_eq!(b.dials(), [0]);
    let first = b.joined(0);
    b.is_now(first, Up);
    assert_eq!(b.dials_after(40), [0_usize; 0]);
    b.is_now(first, PotentiallyFailed);
    assert_eq!(b.dials(), [0_usize; 0]);
    assert_eq!(b.dials_after(60), [0]);
    let second = b.joined(0);
    assert_eq!(b.dials(), [0_usize; 0]);
    b.is_now(second, Up);
    let drop = RejoinAction::Drop {
        subflow: first,
        reason: "silent; a new connection answers",
    };
    // The one that it had when it retired is left to the session.
    assert_eq!(b.actions(), [drop]);
    assert_eq!(b.actions(), []);
}

#[test]
fn a_link_that_a_reload_has_removed_is_not_dialled_for_a_session_that_retires() {
    let mut b = Bench::new(2, &[]);
    assert_eq!(b.dials(), [0, 1]);
    b.rejoin.handle_not_joined(LinkId(0));
    b.rejoin.handle_not_joined(LinkId(1));
    b.links.remove(0);
    assert_eq!(b.dials_after(1_000), [1]);
}
