//! Tests of the destination policy.

use proptest::prelude::*;

use super::*;

fn at(ip: &str) -> SocketAddr {
    SocketAddr::new(ip.parse().unwrap(), 443)
}

fn policy(allow: &[&str], deny: &[&str]) -> DestinationPolicy {
    let rules = |texts: &[&str]| texts.iter().map(|t| t.parse().unwrap()).collect();
    DestinationPolicy {
        allow: rules(allow),
        deny: rules(deny),
    }
}

#[test]
fn only_the_public_internet_is_allowed_by_default() {
    let policy = DestinationPolicy::default();
    for ip in [
        "1.1.1.1",
        "100.63.255.255",
        "100.128.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "192.0.1.1",
        "198.20.0.1",
        "223.255.255.255",
        "2606:4700::1",
        "64:ff9b::101:101",
        "2002:101:101::1",
        "::ffff:1.1.1.1",
    ] {
        assert_eq!(policy.check(at(ip)), Ok(()), "{ip}");
    }
    for (ip, kind) in [
        ("127.0.0.1", Kind::Loopback),
        ("127.255.255.255", Kind::Loopback),
        ("0.0.0.0", Kind::Unspecified),
        ("0.1.2.3", Kind::Unspecified),
        ("169.254.169.254", Kind::LinkLocal),
        ("10.0.0.1", Kind::Private),
        ("172.16.0.1", Kind::Private),
        ("172.31.255.255", Kind::Private),
        ("192.168.1.1", Kind::Private),
        ("100.64.0.1", Kind::Private),
        ("100.127.255.255", Kind::Private),
        ("224.0.0.1", Kind::Multicast),
        ("239.255.255.255", Kind::Multicast),
        ("192.0.2.1", Kind::Documentation),
        ("198.51.100.1", Kind::Documentation),
        ("203.0.113.9", Kind::Documentation),
        ("198.18.0.1", Kind::Reserved),
        ("240.0.0.1", Kind::Reserved),
        ("255.255.255.255", Kind::Reserved),
        ("::", Kind::Unspecified),
        ("::1", Kind::Loopback),
        ("fe80::1", Kind::LinkLocal),
        ("fd00::1", Kind::Private),
        ("fec0::1", Kind::Private),
        ("ff02::1", Kind::Multicast),
        ("2001:db8::1", Kind::Documentation),
        ("3fff::1", Kind::Documentation),
        ("2001::1", Kind::Reserved),
        ("64:ff9b:1::1", Kind::Private),
        ("4000::1", Kind::Reserved),
        ("::ffff:127.0.0.1", Kind::Loopback),
        ("::ffff:10.0.0.1", Kind::Private),
        ("::7f00:1", Kind::Loopback),
        ("::ffff:0:a00:1", Kind::Private),
        ("64:ff9b::a9fe:a9fe", Kind::LinkLocal),
        ("2002:a00:1::1", Kind::Private),
        ("2002:7f00:1::", Kind::Loopback),
    ] {
        let address = at(ip);
        assert_eq!(
            policy.check(address),
            Err(Refused::NotPublic { address, kind }),
            "{ip}"
        );
    }
    let no_port = SocketAddr::new("1.1.1.1".parse().unwrap(), 0);
    assert_eq!(policy.check(no_port), Err(Refused::NoPort(no_port)));
}

#[test]
fn allow_and_deny_apply_to_every_notation_of_an_address() {
    let policy = policy(&["198.51.100.0/24", "10.0.0.7 80-443"], &["198.51.100.66"]);
    assert_eq!(policy.check(at("198.51.100.1")), Ok(()));
    assert_eq!(policy.check(at("::ffff:198.51.100.1")), Ok(()));
    assert_eq!(policy.check(at("10.0.0.7")), Ok(()));
    let ssh = SocketAddr::new("10.0.0.7".parse().unwrap(), 22);
    assert!(policy.check(ssh).is_err());
    for denied in ["198.51.100.66", "::ffff:198.51.100.66", "2002:c633:6442::1"] {
        assert_eq!(
            policy.check(at(denied)),
            Err(Refused::Denied(at(denied))),
            "{denied}"
        );
    }
}

#[test]
fn allowing_all_of_ipv6_allows_no_ipv4() {
    let policy = policy(&["::/0"], &[]);
    assert_eq!(policy.check(at("fd00::1")), Ok(()));
    assert!(policy.check(at("::ffff:127.0.0.1")).is_err());
    assert!(policy.check(at("64:ff9b::a00:1")).is_err());
}

#[test]
fn a_listener_of_the_proxy_itself_can_be_denied() {
    let own: SocketAddr = "1.2.3.4:4443".parse().unwrap();
    let policy = DestinationPolicy {
        allow: vec!["0.0.0.0/0".parse().unwrap()],
        deny: vec![Rule::exactly(own)],
    };
    assert_eq!(policy.check(own), Err(Refused::Denied(own)));
    assert_eq!(policy.check("1.2.3.4:443".parse().unwrap()), Ok(()));
    assert_eq!(policy.check("127.0.0.1:80".parse().unwrap()), Ok(()));
}

#[test]
fn rules_are_read_as_written() {
    for text in [
        "10.0.0.0/8",
        "10.0.0.7/32 443",
        "2001:db8::/32 8000-8999",
        "::/0",
    ] {
        let rule: Rule = text.parse().unwrap();
        assert_eq!(rule.to_string(), text);
    }
    assert_eq!("10.1.2.3/8".parse::<Rule>(), "10.0.0.0/8".parse());
    for bad in [
        "",
        "example.org",
        "10.0.0.0/33",
        "10.0.0.1 99999",
        "10.0.0.1 443-80",
        "10.0.0.1 80 443",
        "10.0.0.1:80",
    ] {
        let said = bad.parse::<Rule>().unwrap_err().to_string();
        assert!(said.contains("such as"), "{said}");
    }
}

#[test]
fn the_configuration_reads_the_policy() {
    let text = r#"{"allow": ["198.51.100.1 80"], "deny": ["1.1.1.1"]}"#;
    let read: DestinationPolicy = serde_json::from_str(text).unwrap();
    assert_eq!(read, policy(&["198.51.100.1 80"], &["1.1.1.1"]));
    let typo = serde_json::from_str::<DestinationPolicy>(r#"{"alow": []}"#);
    assert!(typo.unwrap_err().to_string().contains("alow"));
}

proptest! {
    /// No IPv6 notation of a refused IPv4 address passes the policy.
    #[test]
    fn an_embedded_address_is_treated_as_itself(bits: u32) {
        let policy = DestinationPolicy::default();
        let v4 = std::net::Ipv4Addr::from_bits(bits);
        let plain = policy.check(SocketAddr::new(v4.into(), 1)).is_ok();
        let [a, b, c, d] = v4.octets();
        let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        for v6 in [
            v4.to_ipv6_mapped(),
            std::net::Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
            std::net::Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
        ] {
            let spelled = policy.check(SocketAddr::new(v6.into(), 1)).is_ok();
            prop_assert_eq!(plain, spelled, "{} {}", v4, v6);
        }
    }
}

#[test]
fn own_addresses_and_resolvers_are_refused_unless_allowed() {
    let own = ["11.0.0.1", "2600::1"].map(|ip| ip.parse().unwrap());
    let text = "# comment\nsearch example\nnameserver 185.12.64.1\nnameserver 9.9.9.9\n\
                nameserver\nnameserver 2a01:4ff::1%eth0\nnameserver x\n";
    let internal = InternalAddresses::new(own, text);
    let plain = DestinationPolicy::default();
    for (ip, expected) in [
        ("11.0.0.1", Some(Kind::Own)),
        ("::ffff:11.0.0.1", Some(Kind::Own)),
        ("2600::1", Some(Kind::Own)),
        ("185.12.64.1", Some(Kind::Resolver)),
        ("2a01:4ff::1", Some(Kind::Resolver)),
        ("168.63.129.16", Some(Kind::CloudPlatform)),
        // A public resolver is of no use to an attacker, and of much use to clients.
        ("9.9.9.9", None),
        ("11.0.0.2", None),
        ("2600::2", None),
    ] {
        let found = match plain.check_from(at(ip), &internal) {
            Ok(()) => None,
            Err(Refused::NotPublic { kind, .. }) => Some(kind),
            Err(e) => panic!("{ip}: {e}"),
        };
        assert_eq!(found, expected, "{ip}");
    }
    let allowing = policy(&["11.0.0.1", "168.63.129.16 80"], &[]);
    assert_eq!(allowing.check_from(at("11.0.0.1"), &internal), Ok(()));
    assert!(allowing.check_from(at("2600::1"), &internal).is_err());
    assert!(allowing.check(at("168.63.129.16")).is_err(), "another port");
}
