//! Sessions that take no new streams: kept for those that are open, beside the session in use. And
//! sessions that have ended: kept until applications have read what had arrived completely.

use std::rc::Rc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tracing::info;

use super::state::Primary;
use crate::driver::{Driver, Notice};
use crate::primary::actions::rejoining::Joins;
use crate::primary::connections::confirmed;

/// Maximum number of such sessions, and of ended ones that applications still read from. Each may
/// hold a whole receive window; a proxy that is upgraded more often within the life of a connection
/// is not served further.
const MAX_RETIRING: usize = 4;

/// Longest time for which one is kept: the proxy's own limit is shorter, and one that forgets it
/// does not cost memory for ever.
const RETIRE_WITHIN: Duration = Duration::from_secs(3600);

/// Time for the acknowledgements of the last bytes, after which the subflows are closed.
pub(super) const LINGER: Duration = Duration::from_secs(1);

/// Reason of the end, for people.
const OVER: &str = "no stream is left";

/// Keeps a session for as long as it has streams.
pub(super) fn start(
    primary: &Rc<Primary>,
    driver: Driver,
    notices: mpsc::UnboundedReceiver<Notice>,
) {
    if driver.is_drained() {
        driver.stop(OVER);
        driver.shut_down();
        return;
    }
    add(primary, &driver);
    crate::task::spawn_local(keep(Rc::clone(primary), driver, notices));
}

/// Keeps a session that was lost until applications have read what had arrived completely. Without
/// that, it takes no place of another one.
pub(super) fn outlive(
    primary: &Rc<Primary>,
    driver: Driver,
    notices: mpsc::UnboundedReceiver<Notice>,
) {
    if driver.has_rest() {
        add(primary, &driver);
    }
    crate::task::spawn_local(finish(Rc::clone(primary), driver, notices));
}

/// Adds a session to those that are kept. Where there are too many, the oldest one that has ended
/// is given up, or else the oldest.
fn add(primary: &Primary, driver: &Driver) {
    let surplus = {
        let mut retiring = primary.retiring.borrow_mut();
        retiring.push(driver.clone());
        surplus(&retiring, Driver::has_ended).map(|i| retiring.remove(i))
    };
    if let Some(surplus) = surplus {
        info!("too many sessions retire: one is given up, with its open connections");
        surplus.give_up("too many sessions retire");
    }
}

/// Index of the session to be given up, if there are too many. The oldest one comes first.
fn surplus<S>(sessions: &[S], has_ended: impl Fn(&S) -> bool) -> Option<usize> {
    let ended = || sessions.iter().position(has_ended);
    (sessions.len() > MAX_RETIRING).then(|| ended().unwrap_or(0))
}

/// Delivers the rest of a session that has ended.
async fn finish(
    primary: Rc<Primary>,
    driver: Driver,
    mut notices: mpsc::UnboundedReceiver<Notice>,
) {
    driver.deliver_rest(&mut notices).await;
    driver.shut_down();
    let same = |other: &Driver| other.is(&driver);
    primary.retiring.borrow_mut().retain(|other| !same(other));
}

async fn keep(primary: Rc<Primary>, driver: Driver, mut notices: mpsc::UnboundedReceiver<Notice>) {
    info!("open connections stay with the session that retires; the next one takes new ones");
    let mut end = Instant::now() + RETIRE_WITHIN;
    let mut joins = Joins::new(&primary, &driver);
    loop {
        joins.advance();
        tokio::select! {
            notice = notices.recv() => match notice {
                Some(Notice::Drained) => end = Instant::now() + LINGER,
                Some(Notice::Lost(_)) | None => break,
                Some(Notice::Refused { destination, code }) => {
                    confirmed::not_reached(&primary, &destination, code);
                }
                Some(_) => {}
            },
            () = sleep_until(end) => break,
            () = joins.next() => {}
        }
    }
    info!("the session that retired is over");
    driver.stop(OVER);
    finish(primary, driver, notices).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ended_session_is_given_up_before_one_that_retires() {
        let ended = |ended: &bool| *ended;
        assert_eq!(surplus(&[true, true, false, false], ended), None);
        assert_eq!(surplus(&[false, true, false, true, false], ended), Some(1));
        assert_eq!(surplus(&[false, false, false, false, true], ended), Some(4));
        assert_eq!(surplus(&[false; 5], ended), Some(0));
    }
}
