//! A stream of constant rate, whose messages have time stamps.

use std::io;
use std::time::Instant;

use mpbond_statistics::Sample;

use super::ran::{Noticed, Ran, Setting, used};
use crate::error::Result;
use crate::experiment::{Stamp, Stream};
use crate::figures::quantity::Quantity;
use crate::record::MessageTimes;
use crate::transfer::client::Progress;
use crate::transfer::stamp::{STAMP_BYTES, stamp};
use crate::transfer::watch::Watch;

/// Receives the stream to its end. The delay of a message runs from its time stamp to its last
/// byte.
pub(super) fn listen(stream: &Stream, setting: &Setting, progress: Progress) -> Result<Ran> {
    let (mut connection, start) = setting.dial.connect(setting.limit)?;
    let deadline = start + setting.limit;
    let message = stream.message.0;
    let stamped = match stream.stamp {
        Stamp::Due => "",
        Stamp::Written => "/written",
    };
    let path = format!(
        "/stream/{}/{}/{message}{stamped}",
        stream.bit_rate().bps(),
        stream.length.as_millis()
    );
    let mut watch = Watch::since(start);
    let mut reader = Messages::new(message as usize);
    connection.get(&path, None, deadline, &mut |piece| {
        reader.take(piece, stamp());
        watch.saw(watch.bytes() + piece.len() as u64, Instant::now());
        progress(watch.bytes());
        io::Result::Ok(())
    })?;
    let intact = reader.at == 0 && !reader.delays_s.is_empty();
    Ok(Ran {
        watch,
        intact,
        noticed: quantities(&reader.delays_s.into_iter().collect()),
        used: used(&connection, start),
        messages: MessageTimes::default(),
    })
}

/// Quantities of a stream whose messages had these delays, in seconds.
pub(crate) fn quantities(delays: &Sample) -> Noticed {
    let all = [
        (Quantity::DelayS, delays.mean()),
        (Quantity::DelayMedianS, delays.median()),
        (Quantity::DelaySdS, delays.standard_deviation()),
        (Quantity::DelayP95S, delays.quantile(0.95)),
        (Quantity::DelayMaxS, delays.max()),
    ];
    let known = all.into_iter().filter_map(|(q, value)| Some((q, value?)));
    known.collect()
}

/// Splits a stream into messages.
struct Messages {
    length: usize,
    /// Bytes received of the current message.
    at: usize,
    stamp: [u8; STAMP_BYTES],
    delays_s: Vec<f64>,
}

impl Messages {
    fn new(length: usize) -> Self {
        Self {
            length,
            at: 0,
            stamp: [0; STAMP_BYTES],
            delays_s: Vec::new(),
        }
    }

    fn take(&mut self, mut piece: &[u8], now_ns: u64) {
        while !piece.is_empty() {
            let (mine, rest) = piece.split_at(piece.len().min(self.length - self.at));
            for (place, byte) in (self.at..STAMP_BYTES).zip(mine) {
                self.stamp[place] = *byte;
            }
            self.at += mine.len();
            piece = rest;
            if self.at == self.length {
                let sent = u64::from_be_bytes(self.stamp);
                self.delays_s.push(now_ns.saturating_sub(sent) as f64 / 1e9);
                self.at = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_anywhere() {
        let mut whole = Vec::new();
        for sent in [1_000_000_000_u64, 2_000_000_000] {
            whole.extend(sent.to_be_bytes());
            whole.extend([7; 12]);
        }
        for cut in 0..whole.len() {
            let mut messages = Messages::new(20);
            messages.take(&whole[..cut], 3_000_000_000);
            messages.take(&whole[cut..], 3_000_000_000);
            assert_eq!(messages.delays_s, [2.0, 1.0], "cut at {cut}");
            assert_eq!(messages.at, 0);
        }
    }
}
