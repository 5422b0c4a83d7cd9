//! `mpbond explain`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use mpbond_command::{Failure, print};
use mpbond_net::Endpoint;
use serde::Serialize;

use super::api;
use super::endpoint::endpoint;

/// Port of a destination that has none.
const PORT: u16 = 443;

/// Explain how the policy of a running primary would treat a connection.
///
/// It prints the rule that selects the connection, the facts and their origins, and the rules
/// before it with the condition that each misses. A fact that is not given is unknown, and a rule
/// on it does not apply. Nothing is connected. It is for root, the user of the daemon and members
/// of its group.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond explain www.example.org
  mpbond explain 192.0.2.1:25 --uid 1000
  mpbond explain example.org --app restic.service --json

Exit codes: 0 explained, 1 no primary answers, or it refuses this user, 2 wrong usage.")]
pub(super) struct ExplainArgs {
    /// Destination: a name or an address; port 443 without another one.
    #[arg(value_name = "DESTINATION", value_parser = destination)]
    destination: Endpoint,
    /// Identifier or unit of the application.
    #[arg(long)]
    app: Option<String>,
    /// Number of the application's user.
    #[arg(long)]
    uid: Option<u32>,
    /// Control group of the application, such as /system.slice/restic.service.
    #[arg(long, value_name = "PATH")]
    cgroup: Option<String>,
    /// Code point of the application's socket.
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=63))]
    dscp: Option<u8>,
    /// Address of the client.
    #[arg(long, value_name = "ADDRESS")]
    source: Option<IpAddr>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// The primary's configuration, which names its status socket, beside which its API is.
    /// Otherwise primary.toml in /etc/mpbond (root) or ~/.config/mpbond.
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
}

fn destination(text: &str) -> Result<Endpoint, String> {
    let found = endpoint(text, PORT);
    found.ok_or_else(|| "neither a host name nor an address, with a port or without".to_owned())
}

/// A question of the API (docs/api.md).
#[derive(Serialize)]
struct Question<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    domain: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ip: Option<IpAddr>,
    port: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    app: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cgroup: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dscp: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<IpAddr>,
}

impl ExplainArgs {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let sockets = api::sockets(self.config.clone()).map_err(Failure::input)?;
        let question = serde_json::to_string(&self.question()).map_err(Failure::run)?;
        let accept = match self.json {
            true => "application/json",
            false => "text/plain",
        };
        let accept = format!("Accept: {accept}\r\n");
        print(&api::ask_first(
            &sockets,
            "POST /v1/explain",
            &accept,
            &question,
        )?)?;
        Ok(ExitCode::SUCCESS)
    }

    fn question(&self) -> Question<'_> {
        let (domain, ip, port) = match &self.destination {
            Endpoint::At(to) => (None, Some(to.ip()), to.port()),
            Endpoint::Name { host, port } => (Some(host.as_str()), None, *port),
        };
        Question {
            domain,
            ip,
            port,
            app: self.app.as_deref(),
            uid: self.uid,
            cgroup: self.cgroup.as_deref(),
            dscp: self.dscp,
            source: self.source,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: ExplainArgs,
    }

    fn question(line: &str) -> String {
        let words = ["explain"].into_iter().chain(line.split(' '));
        let line = Line::try_parse_from(words).map_err(|e| e.to_string());
        let question = line.map(|line| serde_json::to_string(&line.args.question()).unwrap());
        question.unwrap_or_else(|e| e)
    }

    #[test]
    fn facts_that_are_not_given_are_not_in_the_question() {
        assert_eq!(
            question("a.example"),
            r#"{"domain":"a.example","port":443}"#
        );
        assert_eq!(
            question("[2001:db8::1]:25 --uid 0 --dscp 63 --source 192.0.2.7"),
            r#"{"ip":"2001:db8::1","port":25,"uid":0,"dscp":63,"source":"192.0.2.7"}"#
        );
        for line in ["a_b!:1", "a.example:0", "a.example --dscp 64"] {
            assert!(question(line).contains("error: invalid value"), "{line}");
        }
    }
}
