//! Requirements of tests that not every machine meets.

use std::fmt::Display;
use std::path::PathBuf;
use std::process::Command;

/// Environment variable: comma-separated names of requirements that must be met.
const REQUIRED: &str = "MPBOND_TEST_REQUIRE";

/// A requirement that not every machine meets.
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
    /// The browser Chromium.
    Chromium,
    /// The right to send ICMP.
    Icmp,
    /// The program `dpkg-deb`.
    Dpkg,
    /// The program `script`, which opens a terminal.
    Script,
    /// The programs of OpenSSH, its server among them.
    Sshd,
    /// The kernel's queueing discipline TBF.
    Tbf,
    /// The program `promtool`, of Prometheus.
    Promtool,
    /// The program `man`.
    Man,
    /// The program `python3`.
    Python,
    /// The program `node`.
    Node,
    /// The time zones of the system.
    Zones,
    /// A machine with time left for links that are played in real time.
    Idle,
}

impl Need {
    const ALL: [Self; 20] = [
        Self::Samples,
        Self::Namespaces,
        Self::Nft,
        Self::Tshark,
        Self::Tracer,
        Self::Root,
        Self::Systemd,
        Self::Curl,
        Self::Chromium,
        Self::Icmp,
        Self::Dpkg,
        Self::Script,
        Self::Sshd,
        Self::Tbf,
        Self::Promtool,
        Self::Man,
        Self::Python,
        Self::Node,
        Self::Zones,
        Self::Idle,
    ];

    /// Name in `MPBOND_TEST_REQUIRE`.
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
            Self::Chromium => "chromium",
            Self::Icmp => "icmp",
            Self::Dpkg => "dpkg",
            Self::Script => "script",
            Self::Sshd => "sshd",
            Self::Tbf => "tbf",
            Self::Promtool => "promtool",
            Self::Man => "man",
            Self::Python => "python",
            Self::Node => "node",
            Self::Zones => "zones",
            Self::Idle => "idle",
        }
    }

    /// Reports that the test is skipped because the requirement is not met.
    ///
    /// # Panics
    /// When `MPBOND_TEST_REQUIRE` contains it, or an unknown name.
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

/// Whether `nft` runs. Otherwise the test is to end: this reports [`Need::Nft`] as missing.
pub fn has_nft() -> bool {
    runs(Need::Nft, "nft", &["--version"])
}

/// Whether `script` runs. Otherwise the test is to end: this reports [`Need::Script`] as missing.
pub fn has_script() -> bool {
    runs(Need::Script, "script", &["--version"])
}

/// Whether links can be limited by TBF. Otherwise the test is to end: this reports [`Need::Tbf`] as
/// missing.
pub fn has_tbf() -> bool {
    let limit = "tc qdisc add dev lo root tbf rate 8mbit burst 32kb latency 100ms";
    runs(Need::Tbf, "unshare", &["-Urn", "sh", "-c", limit])
}

/// Path of the program `sshd`, beside which `ssh` and `scp` are installed. It has to be started by
/// its whole path. Otherwise the test is to end: this reports [`Need::Sshd`] as missing.
pub fn sshd() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
    let found = folders.map(|f| f.join("sshd")).find(|f| f.is_file());
    if found.is_none() {
        Need::Sshd.is_missing("there is no sshd in PATH and /usr/sbin");
        return None;
    }
    found.filter(|_| runs(Need::Sshd, "ssh", &["-V"]))
}

fn runs(need: Need, program: &str, arguments: &[&str]) -> bool {
    let output = Command::new(program).args(arguments).output();
    let runs = output.is_ok_and(|o| o.status.success());
    if !runs {
        need.is_missing(format_args!("{program} {}: it fails", arguments.join(" ")));
    }
    runs
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
