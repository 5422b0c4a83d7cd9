//! Datagram of `mpbond probe` and `mpbond probe-server`: 40 octets and padding, big-endian. An
//! answer has the length of its request, so that the server cannot be used for amplification.

/// Minimum length: octets needed for the answer's stamps.
pub(crate) const LEAST: usize = 40;

const MAGIC: [u8; 4] = *b"mpbP";
const VERSION: u8 = 1;

/// A request or an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) is_answer: bool,
    /// Run of the probe; identifies strays.
    pub(crate) run: u64,
    pub(crate) seq: u32,
    /// Times at which the server received and sent.
    pub(crate) t2_ns: u64,
    pub(crate) t3_ns: u64,
}

impl Message {
    /// Writes the message to the front of `to`, which has at least [`LEAST`] octets.
    pub(crate) fn write(&self, to: &mut [u8]) {
        let mut all = [0; LEAST];
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            for (to, from) in all.iter_mut().skip(at).zip(bytes) {
                *to = *from;
            }
            at += bytes.len();
        };
        put(&MAGIC);
        put(&[VERSION, u8::from(self.is_answer), 0, 0]);
        put(&self.run.to_be_bytes());
        put(&self.seq.to_be_bytes());
        put(&[0; 4]);
        put(&self.t2_ns.to_be_bytes());
        put(&self.t3_ns.to_be_bytes());
        for (to, from) in to.iter_mut().zip(all) {
            *to = from;
        }
    }

    pub(crate) fn read(from: &[u8]) -> Option<Self> {
        let head = from.get(..LEAST)?;
        if !head.starts_with(&MAGIC) || head.get(4) != Some(&VERSION) {
            return None;
        }
        let is_answer = match head.get(5)? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let eight = |at: usize| {
            let bytes = <[u8; 8]>::try_from(head.get(at..at + 8)?).ok()?;
            Some(u64::from_be_bytes(bytes))
        };
        Some(Self {
            is_answer,
            run: eight(8)?,
            seq: (eight(16)? >> 32) as u32,
            t2_ns: eight(24)?,
            t3_ns: eight(32)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(run: u64, seq: u32, t2_ns: u64, t3_ns: u64, is_answer: bool) {
            let message = Message { is_answer, run, seq, t2_ns, t3_ns };
            let mut bytes = [9; 64];
            message.write(&mut bytes);
            prop_assert_eq!(Message::read(&bytes), Some(message));
            prop_assert_eq!(&bytes[LEAST..], &[9; 24]);
            for end in 0..LEAST {
                prop_assert_eq!(Message::read(&bytes[..end]), None);
            }
        }

        #[test]
        fn anything_is_survived(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = Message::read(&bytes);
        }
    }
}
