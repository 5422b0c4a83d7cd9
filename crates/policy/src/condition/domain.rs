//! Domain names, and sets of them.

use std::net::IpAddr;

use crate::value::FromText;

/// Maximum length of a domain name in its textual form (RFC 1035, section 2.3.4).
const MAX_DOMAIN_BYTES: usize = 253;

/// Maximum length of a label (RFC 1035, section 2.3.4).
const MAX_LABEL_BYTES: usize = 63;

/// A domain name in lower case, without a dot at its end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DomainName(String);

impl DomainName {
    /// Takes a name from a client, a ClientHello or a DNS answer; `None` when it is an address or
    /// cannot be the name of a host. Names with other characters than ASCII have their ASCII form
    /// there (RFC 5890).
    pub fn new(name: &str) -> Option<Self> {
        let name = name.strip_suffix('.').unwrap_or(name);
        let fits = (1..=MAX_DOMAIN_BYTES).contains(&name.len());
        let is_label = |label: &str| {
            let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
            (1..=MAX_LABEL_BYTES).contains(&label.len()) && label.bytes().all(plain)
        };
        if !fits || !name.split('.').all(is_label) || name.parse::<IpAddr>().is_ok() {
            return None;
        }
        Some(Self(name.to_ascii_lowercase()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name from its end, with a dot behind: a prefix of those of the names below it.
    fn reversed(&self) -> impl Iterator<Item = u8> {
        self.0.bytes().rev().chain(std::iter::once(b'.'))
    }

    fn is_below(&self, other: &Self) -> bool {
        let rest = self.0.strip_suffix(other.as_str());
        rest.is_some_and(|rest| rest.ends_with('.'))
    }
}

/// `example.org`, or `*.example.org` for all names below it.
#[derive(Debug, Clone)]
pub(crate) enum DomainPattern {
    Name(DomainName),
    Below(DomainName),
}

impl FromText for DomainPattern {
    const EXPECTED: &'static str =
        "a domain such as \"example.org\", or \"*.example.org\" for all names below it";

    fn from_text(text: &str) -> Result<Self, String> {
        if !text.is_ascii() {
            return Err(
                "write the name in its ASCII form, such as \"xn--mnchen-3ya.example\"".to_owned(),
            );
        }
        if text.parse::<IpAddr>().is_ok() {
            return Err(format!("{text} is an address: write it as \"ip\""));
        }
        let below = text.strip_prefix("*.");
        let name = DomainName::new(below.unwrap_or(text));
        let name = name.ok_or_else(|| Self::unexpected(text))?;
        Ok(match below {
            Some(_) => Self::Below(name),
            None => Self::Name(name),
        })
    }
}

/// Set of domain names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Domains {
    names: Vec<DomainName>,
    /// In the order of the reversed names; none is below another one.
    below: Vec<DomainName>,
}

impl Domains {
    pub(crate) fn new(patterns: &[DomainPattern]) -> Self {
        let (mut names, mut below) = (Vec::new(), Vec::new());
        for pattern in patterns {
            match pattern {
                DomainPattern::Name(name) => names.push(name.clone()),
                DomainPattern::Below(name) => below.push(name.clone()),
            }
        }
        names.sort_unstable();
        below.sort_unstable_by(|one, other| one.reversed().cmp(other.reversed()));
        below.dedup_by(|name, kept| name == kept || name.is_below(kept));
        Self { names, below }
    }

    /// The only name of `below` that a name can be, or be below.
    fn candidate(&self, name: &DomainName) -> Option<&DomainName> {
        let of = |own: &DomainName| own.reversed().le(name.reversed());
        self.below.get(..self.below.partition_point(of))?.last()
    }

    /// Whether the set contains a name.
    pub(crate) fn contains(&self, name: &DomainName) -> bool {
        let named = self.names.binary_search(name).is_ok();
        named || self.candidate(name).is_some_and(|own| name.is_below(own))
    }

    /// Whether the set contains all of another.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let above = |name: &DomainName| {
            let own = self.candidate(name);
            own.is_some_and(|own| name == own || name.is_below(own))
        };
        other.names.iter().all(|name| self.contains(name)) && other.below.iter().all(above)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(patterns: &[&str]) -> Domains {
        let parse = |text: &&str| DomainPattern::from_text(text).unwrap();
        Domains::new(&patterns.iter().map(parse).collect::<Vec<_>>())
    }

    fn has(patterns: &[&str], name: &str) -> bool {
        set(patterns).contains(&DomainName::new(name).unwrap())
    }

    #[test]
    fn a_star_covers_all_names_below_and_not_the_name_itself() {
        assert!(has(&["*.zoom.us"], "eu1.zoom.us"));
        assert!(has(&["*.zoom.us"], "a.b.zoom.us"));
        assert!(!has(&["*.zoom.us"], "zoom.us"));
        assert!(!has(&["*.zoom.us"], "notzoom.us"));
        assert!(!has(&["*.zoom.us"], "zoom.us.example.org"));
        assert!(has(&["*.zoom.us", "zoom.us"], "zoom.us"));
        assert!(!has(&["zoom.us"], "eu1.zoom.us"));
        assert!(has(&["*.us"], "zoom.us"));
        assert!(has(&["*.a-b.org", "*.b.org", "*.x.a.org"], "c.b.org"));
        assert!(!has(&["*.a-b.org", "*.b.org", "*.x.a.org"], "c.a.org"));
    }

    #[test]
    fn case_and_a_last_dot_do_not_matter() {
        assert!(has(&["*.Zoom.US"], "EU1.zoom.us."));
        assert!(has(&["Example.org."], "example.ORG"));
    }

    #[test]
    fn what_cannot_be_a_host_name_is_none() {
        let long = format!("{}.org", "a".repeat(64));
        let longer = format!("{}org", "a.".repeat(126));
        for bad in [
            "",
            ".",
            "a..b",
            "192.0.2.1",
            "::1",
            "a b",
            "ü.de",
            "<b>.de",
            &long,
            &longer,
        ] {
            assert_eq!(DomainName::new(bad), None, "{bad}");
        }
        assert!(DomainName::new("_dmarc.example.org").is_some());
        for bad in [
            "*",
            "*.",
            "*.*.org",
            "a.*.org",
            "*example.org",
            "192.0.2.1",
            "münchen.de",
        ] {
            assert!(DomainPattern::from_text(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sets_that_cover_others() {
        for (one, other, covers) in [
            (&["*.a.org"][..], &["b.a.org", "*.c.a.org"][..], true),
            (&["*.a.org"], &["a.org"], false),
            (&["a.org"], &["*.a.org"], false),
            (&["*.a.org", "a.org"], &["a.org", "*.a.org"], true),
            (&["*.b.a.org"], &["*.a.org"], false),
            (&["*.a.org", "*.b.a.org"], &["*.c.a.org"], true),
        ] {
            assert_eq!(set(one).covers(&set(other)), covers, "{one:?} {other:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_set_contains_what_one_of_its_patterns_does(
            patterns in proptest::collection::vec("(\\*\\.)?([ab]|a-b)(\\.([ab]|a-b)){0,3}", 1..6),
            name in "([ab]|a-b)(\\.([ab]|a-b)){0,4}",
        ) {
            let one = |pattern: &&str| match pattern.strip_prefix("*.") {
                Some(below) => name.ends_with(&format!(".{below}")),
                None => name == **pattern,
            };
            let patterns: Vec<_> = patterns.iter().map(String::as_str).collect();
            proptest::prop_assert_eq!(has(&patterns, &name), patterns.iter().any(one));
        }
    }
}
