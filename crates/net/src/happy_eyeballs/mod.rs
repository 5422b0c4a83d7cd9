//! Connecting to the first of several addresses that answers (RFC 8305, Happy Eyeballs version 2):
//! an address that does not answer costs a quarter of a second, not the time limit of a connection.

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
    /// Errors of all attempts, in the order in which they were started.
    Attempts(Vec<E>),
}

/// Connects to the first address of a name that `attempt` reaches, and cancels the other attempts.
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
    let mut race = Race::new(Order::default(), attempt);
    let (mut looks_up, mut no_answer) = (true, false);
    let errors = loop {
        tokio::select! {
            result = race.run() => match result {
                Ok(connection) => return Ok(connection),
                Err(errors) => break errors,
            },
            answer = lookup.next(), if looks_up => match answer {
                Some((family, found)) => {
                    no_answer |= matches!(found, Err(LookupError::NoAnswer));
                    let addresses = found.unwrap_or_default();
                    let addresses = addresses.iter().map(|ip| SocketAddr::new(*ip, port));
                    let now = race.now();
                    race.order.answered(family, addresses, now);
                }
                None => looks_up = false,
            },
        }
    };
    Err(match errors.is_empty() {
        false => Failure::Attempts(errors),
        true if no_answer => Failure::Lookup(LookupError::NoAnswer),
        true => Failure::Lookup(LookupError::NotFound),
    })
}

/// Connects to the first of these addresses that `attempt` reaches, in their order, and cancels the
/// other attempts.
///
/// # Errors
/// Those of all attempts, in the order of the addresses.
pub async fn connect_in_order<F, T, E>(
    addresses: impl IntoIterator<Item = SocketAddr>,
    attempt: impl Fn(SocketAddr) -> F,
) -> Result<T, Vec<E>>
where
    F: Future<Output = Result<T, E>>,
{
    Race::new(Order::given(addresses), attempt).run().await
}

/// Attempts under way.
struct Race<A, F, E> {
    attempt: A,
    start: Instant,
    order: Order,
    /// Attempts by their number.
    attempts: Vec<(usize, Pin<Box<F>>)>,
    started: usize,
    errors: Vec<(usize, E)>,
}

impl<A, F, T, E> Race<A, F, E>
where
    A: Fn(SocketAddr) -> F,
    F: Future<Output = Result<T, E>>,
{
    fn new(order: Order, attempt: A) -> Self {
        Self {
            attempt,
            start: Instant::now(),
            order,
            attempts: Vec::new(),
            started: 0,
            errors: Vec::new(),
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.start.elapsed()
    }

    /// Starts attempts when they are due until one succeeds or none is left. Cancel-safe.
    async fn run(&mut self) -> Result<T, Vec<E>> {
        loop {
            let until = match self.order.next(self.now()) {
                Next::Attempt(address) => {
                    let attempt = Box::pin((self.attempt)(address));
                    self.attempts.push((self.started, attempt));
                    self.started += 1;
                    continue;
                }
                Next::WaitUntil(until) => Some(self.start + until.since(Timestamp::ZERO)),
                Next::Wait => None,
                Next::Over => break,
            };
            tokio::select! {
                (number, result) = first(&mut self.attempts) => match result {
                    Ok(connection) => return Ok(connection),
                    Err(e) => {
                        self.errors.push((number, e));
                        self.order.failed();
                    }
                },
                () = until_then(until) => {}
            }
        }
        self.errors.sort_unstable_by_key(|(number, _)| *number);
        Err(self.errors.drain(..).map(|(_, e)| e).collect())
    }
}

/// Number and result of the first attempt that ends; it is removed.
async fn first<F: Future>(attempts: &mut Vec<(usize, Pin<Box<F>>)>) -> (usize, F::Output) {
    poll_fn(|cx| {
        for n in 0..attempts.len() {
            if let Some((number, attempt)) = attempts.get_mut(n)
                && let Poll::Ready(result) = attempt.as_mut().poll(cx)
            {
                let number = *number;
                drop(attempts.swap_remove(n));
                return Poll::Ready((number, result));
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
    async fn errors_are_in_the_order_of_the_addresses_whichever_ends_first() {
        let slow = |to: SocketAddr| async move {
            tokio::time::sleep(Duration::from_millis(1_000 - u64::from(to.port()))).await;
            Err::<(), _>(to.port())
        };
        let to = |port| SocketAddr::from(([192, 0, 2, 1], port));
        let start = Instant::now();
        let errors = connect_in_order([to(1), to(900), to(2)], slow).await;
        assert_eq!(errors.unwrap_err(), [1, 900, 2]);
        // The second is tried after 250 ms and fails 100 ms later, when the third is.
        assert_eq!(start.elapsed().as_millis(), 350 + 998);
        let none: Result<(), Vec<u16>> = connect_in_order([], slow).await;
        assert_eq!(none, Err(Vec::new()));
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
