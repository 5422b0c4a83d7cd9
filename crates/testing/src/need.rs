//! Needs of tests.

use std::fmt::Display;

/// Comma-separated names of the needs that must be met.
const REQUIRED: &str = "MPBOND_TEST_REQUIRE";

/// Something that a test needs and a machine may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Recorded samples, in `shared/samples` beside the repository.
    Samples,
    /// Network and user namespaces, and the lab's other needs of the kernel.
    Namespaces,
    /// The program `nft`.
    Nft,
    /// The program `tshark`.
    Tshark,
    /// The kernel's tracer, with the right to use it.
    Tracer,
    /// The user root.
    Root,
    /// systemd's programs.
    Systemd,
    /// The program `curl`.
    Curl,
    /// The right to send ICMP.
    Icmp,
    /// A machine with time left for links that are played in real time.
    Idle,
}

impl Need {
    const ALL: [Self; 10] = [
        Self::Samples,
        Self::Namespaces,
        Self::Nft,
        Self::Tshark,
        Self::Tracer,
        Self::Root,
        Self::Systemd,
        Self::Curl,
        Self::Icmp,
        Self::Idle,
    ];

    /// Its name in `MPBOND_TEST_REQUIRE`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Samples => "samples",
            Self::Namespaces => "namespaces",
            Self::Nft => "nft",
            Self::Tshark => "tshark",
            Self::Tracer => "tracer",
            Self::Root => "root",
            Self::Systemd => "systemd",
            Self::Curl => "curl",
            Self::Icmp => "icmp",
            Self::Idle => "idle",
        }
    }

    /// Says that the test is skipped because this is missing.
    ///
    /// # Panics
    /// Where it is required, or where the variable has a name that is none of the needs.
    pub fn is_missing(self, why: impl Display) {
        let required = std::env::var(REQUIRED).unwrap_or_default();
        assert!(
            !self.is_required(&required),
            "{REQUIRED} has {}, and it is missing: {why}",
            self.name()
        );
        eprintln!("skipped: {why}");
    }

    fn is_required(self, list: &str) -> bool {
        let names = list.split(',').map(str::trim).filter(|n| !n.is_empty());
        let mut found = false;
        for name in names {
            assert!(
                Self::ALL.iter().any(|need| need.name() == name),
                "{REQUIRED}: \"{name}\" is not one of {:?}",
                Self::ALL.map(Self::name)
            );
            found |= name == self.name();
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read() {
        assert!(Need::Nft.is_required("samples, nft"));
        assert!(!Need::Root.is_required("samples,nft") && !Need::Root.is_required(""));
    }

    #[test]
    #[should_panic(expected = "\"sample\" is not one of")]
    fn a_misspelt_need_is_an_error() {
        Need::Nft.is_required("sample,nft");
    }
}
