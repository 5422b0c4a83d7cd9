//! Server channels of RFCOMM: between two devices each carries one connection at a time.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

/// Most server channels that RFCOMM has (TS 07.10 leaves 1 to 30).
const LAST: u8 = 30;

/// Server channels of the pipes, the same at both devices: `22-29`.
///
/// Eight by default: control connection, subflow and express are three, and those of a session
/// that ends may still be there while they are dialled again. BlueZ gives its profiles channels up
/// to 17.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Channels {
    first: u8,
    last: u8,
}

impl Channels {
    /// The channels, in ascending order.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        self.first..=self.last
    }

    /// The channel alone.
    pub fn only(channel: u8) -> Self {
        Self {
            first: channel,
            last: channel,
        }
    }

    /// Number of the channels.
    pub fn count(self) -> usize {
        usize::from(self.last - self.first) + 1
    }
}

/// A text names no server channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ParseChannelsError;

impl fmt::Display for ParseChannelsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "channels are 1 to {LAST}: one, or a range such as 22-29")
    }
}

impl std::error::Error for ParseChannelsError {}

impl FromStr for Channels {
    type Err = ParseChannelsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let [first, last] = [first, last].map(|text| text.parse().map_err(|_| ParseChannelsError));
        let (first, last) = (first?, last?);
        if first == 0 || last > LAST || first > last {
            return Err(ParseChannelsError);
        }
        Ok(Self { first, last })
    }
}

impl fmt::Display for Channels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

/// Channels to one device, each free or in use by a connection of this process.
#[derive(Debug, Clone)]
pub(crate) struct Pool {
    channels: Channels,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    /// Bit n: channel n is in use.
    in_use: u32,
    /// Channel of the newest connection.
    newest: u8,
}

impl Pool {
    /// Channels of which none is in use.
    pub fn new(channels: Channels) -> Self {
        let state = State {
            in_use: 0,
            newest: channels.last,
        };
        Self {
            channels,
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// The channels.
    pub fn channels(&self) -> Channels {
        self.channels
    }

    /// All channels, in the order in which they are to be tried: from the one after the newest
    /// connection's, since a channel that has just been closed may still be closing.
    pub fn order(&self) -> Vec<u8> {
        let newest = self.with(|state| state.newest);
        let after = self.channels.iter().filter(|&c| c > newest);
        let before = self.channels.iter().filter(|&c| c <= newest);
        after.chain(before).collect()
    }

    /// Takes a channel, if it is free.
    pub fn take(&self, channel: u8) -> Option<Lease> {
        self.with(|state| {
            let bit = 1 << channel;
            if state.in_use & bit != 0 {
                return None;
            }
            state.in_use |= bit;
            state.newest = channel;
            Some(Lease {
                pool: self.clone(),
                channel,
            })
        })
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A channel in use, which is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    pool: Pool,
    /// The channel.
    pub channel: u8,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.pool.with(|state| state.in_use &= !(1 << self.channel));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_within_1_to_30_are_channels() {
        for (text, count) in [("22-29", 8), ("1-30", 30), ("7-7", 1)] {
            let channels: Channels = text.parse().unwrap();
            assert_eq!(
                (channels.to_string().as_str(), channels.count()),
                (text, count)
            );
        }
        assert_eq!(
            "5".parse::<Channels>().unwrap().iter().collect::<Vec<_>>(),
            [5]
        );
        for text in [
            "", "0", "0-3", "31", "1-31", "9-8", "1-2-3", "a", "-5", "1-", "300",
        ] {
            assert_eq!(text.parse::<Channels>(), Err(ParseChannelsError), "{text}");
        }
    }

    #[test]
    fn a_channel_that_was_closed_is_tried_last() {
        let pool = Pool::new("3-5".parse().unwrap());
        assert_eq!(pool.order(), [3, 4, 5]);
        let first = pool.take(3).unwrap();
        drop(first);
        assert_eq!(pool.order(), [4, 5, 3]);
        let _kept = pool.take(5);
        assert_eq!(pool.order(), [3, 4, 5]);
    }

    #[test]
    fn a_channel_carries_one_connection_at_a_time() {
        let pool = Pool::new("22-23".parse().unwrap());
        let both = [22, 23].map(|c| pool.take(c).unwrap());
        assert_eq!(both.each_ref().map(|lease| lease.channel), [22, 23]);
        assert!(pool.take(22).is_none() && pool.take(23).is_none());
        drop(both);
        assert!(pool.take(22).is_some());
    }
}
