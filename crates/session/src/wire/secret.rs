//! Octets of a handshake that `Debug` does not show.

use std::fmt;

/// Share of the session key, or proof of it. `Debug` leaves the octets out, so that they do not
/// reach a log.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret(pub [u8; 32]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use crate::wire::{Capabilities, Frame, Limits, PathLabel, Secret};
    use crate::{Hello, SessionId, SubflowId, parse_hello};

    /// An octet that occurs nowhere else, in decimal and in hexadecimal.
    const SECRET: Secret = Secret([0xab; 32]);

    fn assert_hidden(shown: &str) {
        assert!(shown.contains("Secret(..)"), "{shown}");
        for octet in ["171", "ab, ab", "abab", "AB"] {
            assert!(!shown.contains(octet), "{shown}");
        }
    }

    #[test]
    fn shares_of_the_key_and_proofs_are_not_shown() {
        let limits = Limits {
            max_data: 1,
            max_stream_data: 2,
            max_streams: 3,
        };
        let capabilities = Capabilities::of_this_version(None);
        let (session, subflow, path) = (SessionId([9; 16]), SubflowId(4), PathLabel::default());
        let hellos = [
            Frame::MpCapable {
                random: SECRET,
                subflow,
                limits,
                path: path.clone(),
                capabilities,
            },
            Frame::MpJoin {
                session,
                subflow,
                proof: SECRET,
                path,
            },
        ];
        let answers = [
            Frame::MpOk {
                random: SECRET,
                session,
                limits,
                capabilities,
            },
            Frame::MpJoinOk { proof: SECRET },
        ];
        for frame in hellos.iter().chain(&answers) {
            assert_hidden(&format!("{frame:?} {frame:#?}"));
        }
        for frame in hellos {
            let mut record = Vec::new();
            frame.encode(&mut record);
            let (hello, _) = parse_hello(record.into()).expect("a hello");
            assert_hidden(&format!("{hello:?} {hello:#?}"));
            let (Hello::Capable { random: octets, .. } | Hello::Join { proof: octets, .. }) = hello;
            assert_eq!(octets, SECRET);
        }
    }
}
