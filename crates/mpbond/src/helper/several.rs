//! Pipes of a primary to this helper: whether it has several, and which relays share one.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use mpbond_net::relay::PipeMessages;

/// Addresses of the ends of a pipe's control connection, which tell the pipes of a primary apart;
/// none for a Unix socket.
pub(super) type Ends = Option<[IpAddr; 2]>;

/// The pipe of a relay.
#[derive(Debug)]
pub(super) struct Pipe {
    ends: Ends,
    /// Whether its primary has had several pipes since it has relays; shared by these.
    pub(super) is_one_of_several: Arc<AtomicBool>,
    /// Messages over the pipe, shared by its relays.
    pub(super) messages: Arc<PipeMessages>,
}

impl Pipe {
    /// The pipe of a new relay, beside those of the relays that its primary has.
    pub(super) fn new<'a>(ends: Ends, others: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut pipe = Self {
            ends,
            is_one_of_several: Arc::default(),
            messages: Arc::default(),
        };
        for other in others {
            pipe.is_one_of_several = Arc::clone(&other.is_one_of_several);
            if other.ends == ends {
                pipe.messages = Arc::clone(&other.messages);
            } else {
                other.is_one_of_several.store(true, Relaxed);
            }
        }
        pipe
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_relays_know_of_a_second_pipe_also_when_the_first_one_is_lost() {
        let ends = |n| Some([[10, 0, n, 1].into(), [10, 0, n, 2].into()]);
        let is_set = |pipe: &Pipe| pipe.is_one_of_several.load(Relaxed);
        let wifi = Pipe::new(ends(1), []);
        let express = Pipe::new(ends(1), [&wifi]);
        assert!(!is_set(&wifi) && !is_set(&express));
        assert!(Arc::ptr_eq(&wifi.messages, &express.messages));
        let bluetooth = Pipe::new(None, [&express, &wifi]);
        assert!(is_set(&wifi) && is_set(&express) && is_set(&bluetooth));
        assert!(!Arc::ptr_eq(&wifi.messages, &bluetooth.messages));
        drop((wifi, express));
        assert!(is_set(&Pipe::new(None, [&bluetooth])));
        // Once it has no relay, nothing is known any more.
        drop(bluetooth);
        assert!(!is_set(&Pipe::new(ends(1), [])));
    }
}
