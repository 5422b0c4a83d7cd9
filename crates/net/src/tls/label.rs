//! Label of a daemon's process. A proxy's is carried in the server name of joins, so that a
//! connection can be given to the process that holds its session before TLS has begun.

use std::fmt;

use super::hello::{Peeked, server_name_of_hello};

/// Domain of the server names; reserved, so that nobody looks it up (RFC 6761, section 6.4).
const DOMAIN: &str = ".mpbond.invalid";

/// Label of a process: the first octets of the ids of a proxy's sessions, and of a helper's
/// tickets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Label(pub [u8; 4]);

impl Label {
    /// The server name (RFC 6066, section 3) of connections that join a session of that process.
    pub fn server_name(self) -> String {
        format!("{self}{DOMAIN}")
    }

    /// The label in a server name, if it is one of these.
    pub fn of_server_name(name: &str) -> Option<Self> {
        let digits = name.strip_suffix(DOMAIN)?;
        let plain = digits.len() == 8 && digits.bytes().all(|b| b.is_ascii_hexdigit());
        let number = u32::from_str_radix(digits, 16).ok().filter(|_| plain)?;
        Some(Self(number.to_be_bytes()))
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", u32::from_be_bytes(self.0))
    }
}

/// Reads the label in the first octets of a connection, without an effect on it.
pub fn label_of_hello(octets: &[u8]) -> Peeked<Label> {
    server_name_of_hello(octets).and_then(|name| Label::of_server_name(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_labels_are_one_to_one() {
        let label = Label([0x0a, 0, 0xff, 0x42]);
        assert_eq!(label.server_name(), "0a00ff42.mpbond.invalid");
        assert_eq!(
            Label::of_server_name("0a00ff42.mpbond.invalid"),
            Some(label)
        );
        for other in [
            "mpbond.invalid",
            "0a00ff4.mpbond.invalid",
            "0a00ff420.mpbond.invalid",
            "+a00ff42.mpbond.invalid",
            "0a00ff42.example.org",
            "x.0a00ff42.mpbond.invalid",
            "",
        ] {
            assert_eq!(Label::of_server_name(other), None, "{other}");
        }
    }

    #[test]
    fn octets_that_are_no_hello_have_no_label() {
        assert_eq!(label_of_hello(b""), Peeked::Incomplete);
        assert_eq!(label_of_hello(&[0x16, 3, 1]), Peeked::Incomplete);
        assert_eq!(
            label_of_hello(b"GET / HTTP/1.1\r\n\r\n"),
            Peeked::Whole(None)
        );
        let endless = [&[0x16, 3, 1, 0x40, 0, 1, 0, 0xff, 0xff][..], &[0; 1 << 14]].concat();
        assert_eq!(label_of_hello(&endless[..8_000]), Peeked::Incomplete);
        assert_eq!(label_of_hello(&endless), Peeked::Whole(None));
    }
}
