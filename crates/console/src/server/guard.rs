//! Checks of a request before it is answered: header Host, method, origin and token.
//!
//! Every user and every web page on this machine can send requests to a loopback address. A page
//! can also let a name of its own resolve to that address (DNS rebinding): its requests carry that
//! name as Host.

use hyper::header::{AUTHORIZATION, HOST, HeaderName, ORIGIN};
use hyper::{HeaderMap, Method, StatusCode};
use subtle::ConstantTimeEq as _;

/// Octets of a token: 128 bits.
const TOKEN_OCTETS: usize = 16;

/// The secret of one start of the program, which every request for data carries.
pub(crate) struct Token(String);

impl Token {
    /// A new random one.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new() -> Result<Self, getrandom::Error> {
        let mut octets = [0; TOKEN_OCTETS];
        getrandom::fill(&mut octets)?;
        Ok(Self(octets.iter().map(|o| format!("{o:02x}")).collect()))
    }

    /// As text, for the address that the user opens.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Whether a request carries it: `Authorization: Bearer TOKEN`, once. The time of the
    /// comparison does not depend on how much of it is right.
    pub fn is_in(&self, headers: &HeaderMap) -> bool {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return false;
        };
        let given = value
            .as_bytes()
            .strip_prefix(b"Bearer ")
            .unwrap_or_default();
        given.ct_eq(self.0.as_bytes()).into()
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

/// Checks what is asked of every request; returns the status of a refusal, with its reason.
/// `may_change`: it is one of those that are passed on to the API.
pub(super) fn check(
    method: &Method,
    headers: &HeaderMap,
    port: u16,
    may_change: bool,
) -> Result<(), (StatusCode, &'static str)> {
    if !names_this(headers, port) {
        return Err((StatusCode::FORBIDDEN, "another host is asked for\n"));
    }
    if method != Method::GET {
        if !may_change {
            return Err((
                StatusCode::METHOD_NOT_ALLOWED,
                "this method is not answered here\n",
            ));
        }
        if !is_of_the_page(headers) {
            return Err((StatusCode::FORBIDDEN, "another page asks\n"));
        }
    }
    Ok(())
}

/// Whether a page of this server has caused a request, as browsers say. The header Host has been
/// checked.
fn is_of_the_page(headers: &HeaderMap) -> bool {
    const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
    let one = |name: &HeaderName| {
        let mut values = headers.get_all(name).iter();
        let value = values.next().and_then(|value| value.to_str().ok());
        value.filter(|_| values.next().is_none())
    };
    if headers.contains_key(SITE) {
        return one(&SITE) == Some("same-origin");
    }
    // Browsers that do not tell the site tell the origin.
    let origin = one(&ORIGIN).and_then(|origin| origin.strip_prefix("http://"));
    origin.is_some() && origin == one(&HOST)
}

/// Whether the header Host is there once, with an address of this server and its port.
fn names_this(headers: &HeaderMap, port: u16) -> bool {
    let mut values = headers.get_all(HOST).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return false;
    };
    let names = ["localhost", "127.0.0.1", "[::1]"];
    names
        .iter()
        .any(|name| value.as_bytes() == format!("{name}:{port}").as_bytes())
}

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderName, HeaderValue};

    use super::*;

    fn headers(name: HeaderName, values: &[&str]) -> HeaderMap {
        let values = values.iter().map(|v| HeaderValue::from_str(v).unwrap());
        values.map(|value| (name.clone(), value)).collect()
    }

    #[test]
    fn only_the_addresses_of_this_server_with_its_port_are_hosts() {
        let allowed = |hosts: &[&str]| names_this(&headers(HOST, hosts), 7000);
        for host in ["localhost:7000", "127.0.0.1:7000", "[::1]:7000"] {
            assert!(allowed(&[host]), "{host}");
        }
        for host in [
            "",
            "localhost",
            "localhost:7001",
            "localhost:07000",
            "LOCALHOST:7000",
            "localhost.:7000",
            "user@localhost:7000",
            "127.0.0.2:7000",
            "::1:7000",
            "0.0.0.0:7000",
            "rebinding.example:7000",
            "localhost:7000.example",
        ] {
            assert!(!allowed(&[host]), "{host}");
        }
        assert!(!allowed(&[]));
        assert!(!allowed(&["localhost:7000", "localhost:7000"]));
    }

    #[test]
    fn changes_come_from_the_page_only() {
        let of = |pairs: &[(&'static str, &str)]| {
            let pair = |(name, value): &(&'static str, &str)| {
                let value = HeaderValue::from_str(value).unwrap();
                (HeaderName::from_static(name), value)
            };
            is_of_the_page(&pairs.iter().map(pair).collect())
        };
        let (host, own) = (("host", "localhost:7"), ("origin", "http://localhost:7"));
        let site = |value| ("sec-fetch-site", value);
        assert!(of(&[host, site("same-origin")]));
        assert!(of(&[host, site("same-origin"), own]));
        assert!(of(&[host, own]));
        for wrong in [
            &[host][..],
            &[host, site("cross-site"), own],
            &[host, site("same-site"), own],
            &[host, site("none"), own],
            &[host, site("same-origin"), site("cross-site")],
            &[host, ("origin", "null")],
            &[host, ("origin", "http://localhost:8")],
            &[host, ("origin", "http://127.0.0.1:7")],
            &[host, ("origin", "https://localhost:7")],
            &[host, own, own],
        ] {
            assert!(!of(wrong), "{wrong:?}");
        }
    }

    #[test]
    fn tokens_are_random_and_compared_as_a_whole() {
        let token = Token::new().unwrap();
        assert_eq!(token.text().len(), 2 * TOKEN_OCTETS);
        assert_ne!(token.text(), Token::new().unwrap().text());
        let accepted = |values: &[String]| {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            token.is_in(&headers(AUTHORIZATION, &values))
        };
        let right = format!("Bearer {}", token.text());
        assert!(accepted(std::slice::from_ref(&right)));
        for wrong in [
            String::new(),
            "Bearer ".to_owned(),
            token.text().to_owned(),
            format!("bearer {}", token.text()),
            right[..right.len() - 1].to_owned(),
            format!("{right}0"),
            format!("Bearer {}", "0".repeat(2 * TOKEN_OCTETS)),
        ] {
            assert!(!accepted(std::slice::from_ref(&wrong)), "{wrong}");
        }
        assert!(!accepted(&[right.clone(), right]));
        assert!(!accepted(&[]));
    }
}
