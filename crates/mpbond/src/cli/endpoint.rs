//! Addresses and names on the command line, with a port or without.

use std::net::{IpAddr, SocketAddr};

use mpbond_net::Endpoint;

/// An address or a host name; without a port it gets this one.
pub(super) fn endpoint(text: &str, port: u16) -> Option<Endpoint> {
    let with_port = text.parse().ok();
    with_port.or_else(|| {
        let ip = text.trim_start_matches('[').trim_end_matches(']');
        match ip.parse::<IpAddr>() {
            Ok(ip) => Some(Endpoint::At(SocketAddr::new(ip, port))),
            Err(_) => Endpoint::named(text, port),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_port_is_added() {
        for (text, expected) in [
            ("192.0.2.1", "192.0.2.1:4433"),
            ("192.0.2.1:1", "192.0.2.1:1"),
            ("2001:db8::1", "[2001:db8::1]:4433"),
            ("[2001:db8::1]", "[2001:db8::1]:4433"),
            ("proxy.example.org", "proxy.example.org:4433"),
            ("proxy.example.org:443", "proxy.example.org:443"),
        ] {
            let found = endpoint(text, 4433).map(|e| e.to_string());
            assert_eq!(found.as_deref(), Some(expected));
        }
        for text in ["", "a b", "192.0.2.1:x", "proxy:70000"] {
            assert_eq!(endpoint(text, 4433), None, "{text}");
        }
    }
}
