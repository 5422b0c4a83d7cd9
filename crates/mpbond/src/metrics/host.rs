//! Check of the header Host at a loopback address.
//!
//! A web page can resolve its own name to a loopback address (DNS rebinding), and would then read
//! what a server there answers to anybody. The browser sends that name.

use std::net::IpAddr;

use hyper::HeaderMap;
use hyper::header::HOST;
use hyper::http::uri::Authority;

/// Whether a request names a loopback address or `localhost`, with any port, or no host at all, as
/// HTTP/1.0 allows: browsers name one.
pub(super) fn is_loopback(headers: &HeaderMap) -> bool {
    headers.get_all(HOST).iter().all(|value| {
        let authority = Authority::try_from(value.as_bytes());
        authority.is_ok_and(|a| names_loopback(a.host()))
    })
}

fn names_loopback(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    let address = bare.unwrap_or(host).parse::<IpAddr>();
    address.is_ok_and(|a| a.to_canonical().is_loopback()) || host.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn allowed(hosts: &[&'static str]) -> bool {
        let hosts = hosts.iter().map(|h| (HOST, HeaderValue::from_static(h)));
        is_loopback(&hosts.collect())
    }

    #[test]
    fn only_this_machine_is_named() {
        assert!(allowed(&[]));
        for host in [
            "localhost",
            "LocalHost:9090",
            "127.0.0.1:9090",
            "127.9.9.9",
            "[::1]:1",
        ] {
            assert!(allowed(&[host]), "{host}");
        }
        for host in [
            "",
            "example.org:9090",
            "localhost.example.org",
            "127.0.0.1.example.org",
            "192.0.2.1",
            "[2001:db8::1]:9090",
            "::1",
            "a b",
        ] {
            assert!(!allowed(&[host]), "{host}");
        }
        assert!(!allowed(&["localhost", "example.org"]));
    }
}
