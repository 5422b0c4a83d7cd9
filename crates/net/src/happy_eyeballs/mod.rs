//! Connecting to a name with several addresses (RFC 8305, Happy Eyeballs version 2): an address
//! that does not answer costs a quarter of a second, not the time limit of a connection.

mod order;

use std::future::{Future, pending, poll_fn};
use std::hash::Hash;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::Poll;

use mpbond_units::Timestamp;
use tokio::time::{Instant, sleep_until};

use crate::resolve::{Lookup, LookupError};
use order::{Next, Order};

/// Reason why no attempt has succeeded.
#[derive(Debug)]
pub enum Failure<E> {
    /// There was no address.
    Lookup(LookupError),
    /// Errors of all attempts, in the order of their ends.
    Attempts(Vec<E>),
}

/// Connects to the first address that `attempt` reaches, and cancels the other attempts.
///
/// # Errors
/// When there is no address, or no attempt has succeeded.
pub async fn connect<K, F, T, E>(
    mut lookup: Lookup<K>,
    port: u16,
    attempt: impl Fn(SocketAddr) -> F,
) -> Result<T, Failure<E>>
where
    K: Hash + Eq + Copy,
    F: Future<Output = Result<T, E>>,
{
    let start = Instant::now();
    let now = || Timestamp::ZERO + start.elapsed();
    let mut order = Order::default();
    let mut attempts: Vec<Pin<Box<F>>> = Vec::new();
    let (mut errors, mut looks_up, mut no_answer) = (Vec::new(), true, false);
    loop {
        let until = match order.next(now()) {
            Next::Attempt(address) => {
                attempts.push(Box::pin(attempt(address)));
                continue;
            }
            Next::WaitUntil(until) => Some(until),
            Next::Wait => None,
            Next::Over => break,
        };
        tokio::select! {
            result = first(&mut attempts) => match result {
                Ok(connection) => return Ok(connection),
                Err(e) => {
                    errors.push(e);
                    order.failed();
                }
            },
            answer = lookup.next(), if looks_up => match answer {
                Some((family, found)) => {
                    no_answer |= matches!(found, Err(LookupError::NoAnswer));
                    let addresses = found.unwrap_or_default();
                    let addresses = addresses.iter().map(|ip| SocketAddr::new(*ip, port));
                    order.answered(family, addresses, now());
                }
                None => looks_up = false,
            },
            () = until_then(until.map(|until| start + until.since(Timestamp::ZERO))) => {}
        }
    }
    Err(match errors.is_empty() {
        false => Failure::Attempts(errors),
        true if no_answer => Failure::Lookup(LookupError::NoAnswer),
        true => Failure::Lookup(LookupError::NotFound),
    })
}

/// Result of the first attempt that ends; it is removed.
async fn first<F: Future>(attempts: &mut Vec<Pin<Box<F>>>) -> F::Output {
    poll_fn(|cx| {
        for n in 0..attempts.len() {
            if let Some(attempt) = attempts.get_mut(n)
                && let Poll::Ready(result) = attempt.as_mut().poll(cx)
            {
                drop(attempts.swap_remove(n));
                return Poll::Ready(result);
            }
        }
        Poll::Pending
    })
    .await
}

async fn until_then(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::time::Duration;

    use super::*;

    fn lookup(addresses: &[&str]) -> Lookup<()> {
        Lookup::fixed(addresses.iter().map(|a| a.parse().unwrap()).collect())
    }

    #[tokio::test(start_paused = true)]
    async fn black_holes_cost_a_quarter_of_a_second_each_and_the_first_answer_wins() {
        let start = Instant::now();
        let tried = RefCell::new(Vec::new());
        let attempt = async |to: SocketAddr| {
            tried.borrow_mut().push(to.ip().to_string());
            match to.is_ipv6() {
                true => pending().await,
                false => tokio::time::sleep(Duration::from_millis(20)).await,
            }
            Ok::<_, ()>(to)
        };
        let names = lookup(&["2001:db8::1", "2001:db8::2", "192.0.2.1", "192.0.2.2"]);
        let reached = connect(names, 443, attempt).await.unwrap();
        assert_eq!(reached.to_string(), "192.0.2.1:443");
        assert_eq!(start.elapsed().as_millis(), 270);
        assert_eq!(*tried.borrow(), ["2001:db8::1", "192.0.2.1"]);
    }

    #[tokio::test(start_paused = true)]
    async fn errors_of_all_attempts_are_told() {
        let attempt = async |to: SocketAddr| Err::<(), _>(to.port());
        let failure = connect(lookup(&["192.0.2.1", "192.0.2.2"]), 7, attempt).await;
        assert!(matches!(failure, Err(Failure::Attempts(errors)) if errors == [7, 7]));
        let nothing = connect(lookup(&[]), 7, attempt).await;
        let expected = LookupError::NotFound;
        assert!(matches!(nothing, Err(Failure::Lookup(e)) if e == expected));
    }
}
