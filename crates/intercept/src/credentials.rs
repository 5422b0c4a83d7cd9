//! User name and password of a front.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use subtle::ConstantTimeEq as _;

/// User name and password required of a front's clients.
///
/// They exclude other users of the machine. SOCKS5 and HTTP send them in clear text, so a front
/// belongs on loopback or a trusted link.
#[derive(Clone)]
pub struct Credentials {
    user: String,
    password: String,
}

impl Credentials {
    /// Credentials, each part of 1 to 255 bytes (RFC 1929, section 2); in the user name no colon
    /// (RFC 7617, section 2) and no comma ([`Intent`](crate::Intent)).
    ///
    /// `None` when a part violates these limits.
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Option<Self> {
        let (user, password) = (user.into(), password.into());
        let fits = |part: &str| (1..=255).contains(&part.len());
        (fits(&user) && fits(&password) && !user.contains([':', ',']))
            .then_some(Self { user, password })
    }

    /// Credentials from a file's text: one line, `user:password`, the form of RFC 7617, section 2.
    ///
    /// `None` for any other text.
    pub fn from_line(text: &str) -> Option<Self> {
        let line = text.strip_suffix('\n').unwrap_or(text);
        let line = line.strip_suffix('\r').unwrap_or(line);
        let (user, password) = line.split_once(':')?;
        let plain = !line.chars().any(char::is_control);
        plain.then(|| Self::new(user, password))?
    }

    /// Compares user name and password in constant time.
    pub(crate) fn matches(&self, user: &[u8], password: &[u8]) -> bool {
        // Both are always compared, so that timing does not reveal which one is wrong.
        let user_ok = self.user.as_bytes().ct_eq(user);
        let password_ok = self.password.as_bytes().ct_eq(password);
        (user_ok & password_ok).into()
    }
}

/// User name and password in the value of a `Proxy-Authorization` field, if it has the Basic
/// scheme (RFC 7617).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Basic {
    pub(crate) user: Vec<u8>,
    pub(crate) password: Vec<u8>,
}

impl Basic {
    pub(crate) fn read(value: &[u8]) -> Option<Self> {
        let (scheme, token) = value.split_at_checked(6)?;
        if !scheme.eq_ignore_ascii_case(b"basic ") {
            return None;
        }
        let mut user = STANDARD.decode(token.trim_ascii()).ok()?;
        let colon = user.iter().position(|octet| *octet == b':')?;
        let password = user.split_off(colon + 1);
        user.pop();
        Some(Self { user, password })
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_pair_matches() {
        let c = Credentials::new("anna", "s3cret").unwrap();
        assert!(c.matches(b"anna", b"s3cret"));
        assert!(!c.matches(b"anna", b"s3cre"));
        assert!(!c.matches(b"ann", b"s3cret"));
        assert!(!c.matches(b"", b""));
        let basic = |value| Basic::read(value).is_some_and(|b| c.matches(&b.user, &b.password));
        assert!(basic(b"Basic YW5uYTpzM2NyZXQ="));
        assert!(basic(b"basic  YW5uYTpzM2NyZXQ="));
        assert!(!basic(b"Basic YW5uYTp4"));
        assert!(!basic(b"Bearer YW5uYTpzM2NyZXQ="));
        assert!(!basic(b"Basic YW5uYTpzM2NyZXQ"));
        assert!(!basic(b"Bas"));
        assert!(!format!("{c:?}").contains("s3cret"));
    }

    #[test]
    fn a_file_has_one_line_with_a_colon() {
        for text in ["anna:s3:cret", "anna:s3:cret\n", "anna:s3:cret\r\n"] {
            let c = Credentials::from_line(text).unwrap();
            assert!(c.matches(b"anna", b"s3:cret"), "{text:?}");
        }
        for text in [
            "",
            "\n",
            "anna",
            "anna:",
            ":x",
            "a:b\nc:d\n",
            "a:b\tc",
            "a:b\n\n",
        ] {
            assert!(Credentials::from_line(text).is_none(), "{text:?}");
        }
    }

    #[test]
    fn invalid_parts_are_refused() {
        assert!(Credentials::new("", "x").is_none());
        assert!(Credentials::new("x", "").is_none());
        assert!(Credentials::new("a:b", "x").is_none());
        assert!(Credentials::new("a,b", "x").is_none());
        assert!(Credentials::new("x".repeat(256), "x").is_none());
    }
}
