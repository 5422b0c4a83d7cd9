//! `external`: programs other than mpbond, as a scheme.
//!
//! ```toml
//! [[scheme]]
//! name = "Aggligator"
//! scheme = "external"
//!
//! [scheme.external]
//! proxy = ["agg-tunnel", "server", "--tcp", "{port}", "--port", "{origin}:80:80"]
//! primary = ["agg-tunnel", "client", "--tcp", "{proxy}:{port}", "--port", "80:8080", "--global"]
//! listens = "127.0.0.1:8080"      # of the primary; forwarded to the origin
//! ```
//!
//! In arguments, `{proxy}` and `{origin}` stand for the addresses of these hosts, and the name of a
//! direct link for the primary's address on it. `{port}` is another port of the proxy at each
//! start, since connections in TIME-WAIT can keep a program from listening on the last one. The
//! primary's program starts once the proxy's listens on `{port}`, if its arguments have it. With
//! `interception = "socks5"` or `"http"`, `listens` is the address of a SOCKS5 server or HTTP
//! proxy; otherwise each of its connections leads to port 80 of the origin.

use std::net::SocketAddrV4;

use serde::Deserialize;

/// Programs of a scheme, with their arguments.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct External {
    /// Program on the proxy's host, if it needs one.
    pub proxy: Option<Vec<String>>,
    /// Program on the primary.
    pub primary: Vec<String>,
    /// Address on the primary to which the client connects.
    pub listens: SocketAddrV4,
}

impl External {
    /// The programs, without arguments.
    pub(crate) fn programs(&self) -> impl Iterator<Item = &str> {
        let commands = self.proxy.iter().chain([&self.primary]);
        commands.filter_map(|command| command.first().map(String::as_str))
    }

    /// Name between braces in an argument that `known` does not contain.
    pub(super) fn unknown_name(&self, known: impl Fn(&str) -> bool) -> Option<&str> {
        let commands = self.proxy.iter().chain([&self.primary]);
        let names = commands.flatten().flat_map(|text| names(text));
        names.into_iter().find(|name| !known(name))
    }
}

/// Names between braces.
fn names(text: &str) -> Vec<&str> {
    let after = text.split('{').skip(1);
    after
        .filter_map(|rest| Some(rest.split_once('}')?.0))
        .collect()
}

/// `text` with each name between braces replaced.
pub(crate) fn with_addresses(text: &str, address: impl Fn(&str) -> Option<String>) -> String {
    let found = names(text).into_iter();
    found.fold(text.to_owned(), |text, name| match address(name) {
        Some(address) => text.replace(&format!("{{{name}}}"), &address),
        None => text,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::experiment::Experiment;

    #[test]
    fn names_between_braces_are_replaced() {
        let address = |name: &str| (name == "origin").then(|| "198.51.100.1".to_owned());
        let text = "{origin}:80:{port}{";
        assert_eq!(with_addresses(text, address), "198.51.100.1:80:{port}{");
        assert_eq!(names(text), ["origin", "port"]);
    }

    #[test]
    fn external_programs_are_checked() {
        let path = Path::new(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../experiments/peers.toml"
        ));
        let text = std::fs::read_to_string(path).unwrap();
        for (from, to, words) in [
            (
                "{first}",
                "{third}",
                "{third} is neither {proxy}, {origin}, {port} nor a direct link",
            ),
            (
                "client = \"fetch\"",
                "client = \"curl\"",
                "`client = \"fetch\"`",
            ),
            (
                "interception = \"socks5\"",
                "interception = \"transparent\"",
                "none, socks5 or http",
            ),
            (
                "scheme = \"external\"",
                "scheme = \"single\"",
                "only for `external`",
            ),
            (
                "primary = [\"dispatch\"",
                "primary = []\n#",
                "a program and its arguments",
            ),
        ] {
            assert!(text.contains(from), "{from}");
            let wrong = text.replacen(from, to, 1);
            let e = Experiment::parse("t.toml", &wrong).unwrap_err().to_string();
            assert!(e.contains(words), "{e}");
        }
    }
}
