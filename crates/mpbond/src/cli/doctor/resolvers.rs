//! Name servers: each one that is asked, by the way by which it is asked.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use mpbond::checks::names::{Answer, Session, by_connection, by_datagram};
use mpbond::config::{OnProxyLoss, PrimaryConfig, Transparent};
use mpbond::own_mark;
use mpbond::primary::{LocalResolvers, PUBLIC_RESOLVERS};
use mpbond::speed::Links;
use mpbond_manager::LinkId;
use mpbond_net::resolve::servers_of;

use super::finding::Findings;

const CHECK: &str = "names";

/// Why a user without privileges cannot ask.
const INTERCEPTED: &str = "the primary that runs intercepts such look-ups; root's are let through";

/// An address without a name server (RFC 5737): where look-ups are intercepted, it has an answer.
const NOBODY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 53);

/// Checks those of this machine.
pub(super) async fn of_system(findings: &mut Findings) {
    directly(findings, &[], None).await;
}

/// Checks those that a primary asks directly, and the answer that its applications get.
pub(super) async fn of_primary(findings: &mut Findings, config: &PrimaryConfig, running: bool) {
    let mark = own_mark::if_allowed();
    let transparent = config.transparent.as_ref();
    match (running && transparent.is_some(), mark) {
        (true, None) => {
            findings.skip(CHECK, "the name servers of this network", INTERCEPTED);
        }
        (is_intercepted, _) => {
            let local = transparent.map_or_else(Vec::new, |transparent| {
                LocalResolvers::new(transparent.exclude.clone()).find()
            });
            directly(findings, &local, mark).await;
            if is_intercepted {
                intercepted(findings).await;
            }
        }
    }
}

/// Checks the servers of this machine, and those of local names.
async fn directly(findings: &mut Findings, local: &[SocketAddr], mark: Option<u32>) {
    let file = PathBuf::from("/etc/resolv.conf");
    if !std::fs::read_to_string(&file).is_ok_and(|text| names_any(&text)) {
        findings.warn(
            CHECK,
            "/etc/resolv.conf names no name server",
            "connect the network as usual, or write `nameserver ADDRESS` there",
        );
    }
    let mut servers = servers_of(&file);
    let others = local.iter().filter(|server| !servers.contains(server));
    servers.extend(others.copied().collect::<Vec<_>>());
    // All at a time: each that is dead takes seconds.
    let asked: Vec<_> = servers
        .iter()
        .map(|server| tokio::task::spawn_local(by_datagram(*server, mark)))
        .collect();
    for (server, asked) in servers.iter().zip(asked) {
        let Ok(answer) = asked.await else {
            continue;
        };
        let role = match local.contains(server) {
            true => ", which is asked for local names,",
            false => "",
        };
        let detail = format!("the name server {}{role} {answer}", server.ip());
        if answer.is_good() {
            findings.ok(CHECK, detail);
            continue;
        }
        let advice = match servers.len() {
            1 => "names cannot be looked up here: is it right in /etc/resolv.conf, and reached?",
            _ => "look-ups wait for it: is it right in /etc/resolv.conf, and reached?",
        };
        findings.warn(CHECK, detail, advice);
    }
}

fn names_any(text: &str) -> bool {
    let mut lines = text.lines().map(str::split_whitespace);
    lines.any(|mut words| words.next() == Some("nameserver"))
}

/// Checks the look-up of an application.
async fn intercepted(findings: &mut Findings) {
    let answer = by_datagram(NOBODY, None).await;
    let detail = format!("the primary, asked as by an application, {answer}");
    match answer.is_good() {
        true => findings.ok(CHECK, detail),
        false => findings.fail(
            CHECK,
            detail,
            "is a resolver dead, by the other lines about names? If not, look into the primary's log",
        ),
    }
}

/// Checks those that are asked through the proxy, by a session over a link that works, or directly
/// while there is none.
pub(super) async fn through_session(
    findings: &mut Findings,
    config: &PrimaryConfig,
    links: &Links<'_>,
    (link, running): (Option<LinkId>, bool),
) {
    let transparent = config.transparent.as_ref();
    let opened = match link {
        Some(link) => Session::open(links, link).await,
        None => Err(anyhow::anyhow!("no path leads to the proxy")),
    };
    let mut session = match opened {
        Ok(session) => session,
        Err(e) => {
            let what = "the resolvers behind the proxy";
            findings.skip(CHECK, what, format_args!("{e:#}"));
            if let (Some(transparent), OnProxyLoss::Direct) = (transparent, config.on_proxy_loss) {
                instead(findings, transparent, running).await;
            }
            return;
        }
    };
    let mut ways: Vec<(String, Option<SocketAddr>)> = Vec::new();
    if session.proxy_answers() {
        ways.push(("the resolver of the proxy".to_owned(), None));
    }
    let configured = transparent.map_or(&[][..], |transparent| &transparent.resolvers);
    let named = match (configured, session.proxy_answers(), transparent) {
        // For proxies that do not answer themselves.
        ([], false, Some(_)) => &PUBLIC_RESOLVERS[..],
        (configured, ..) => configured,
    };
    ways.extend(named.iter().map(|server| {
        let name = format!("the resolver {}, asked through the proxy,", server.ip());
        (name, Some(*server))
    }));
    let mut answers = Vec::new();
    for (name, resolver) in ways {
        match session.ask(resolver).await {
            Ok(answer) => answers.push((name, resolver, answer)),
            Err(e) => findings.skip(CHECK, &name, format_args!("{e:#}")),
        }
    }
    if answers.is_empty() {
        let why = "the proxy answers no look-ups: is its version of mpbond older?";
        return findings.skip(CHECK, "the resolver of the proxy", why);
    }
    let any = answers.iter().any(|(.., answer)| answer.is_good());
    for (name, resolver, answer) in answers {
        let advice = match resolver {
            None => {
                "on the proxy, `mpbond doctor proxy` says which of its name servers is dead; \
                     others can be named by `resolvers` under [transparent]"
            }
            Some(_) => {
                "is it right in `resolvers` under [transparent], and does it answer over TCP?"
            }
        };
        // Where nothing is intercepted, programs may do without.
        tell(
            findings,
            &name,
            &answer,
            any || transparent.is_none(),
            advice,
        );
    }
}

/// Checks those that are asked directly while no path to the proxy works: those of the network, and
/// others only where the system names none.
async fn instead(findings: &mut Findings, config: &Transparent, running: bool) {
    let mark = own_mark::if_allowed();
    if running && mark.is_none() {
        let what = "the resolvers that are asked while connections go direct";
        return findings.skip(CHECK, what, INTERCEPTED);
    }
    let here = LocalResolvers::new(config.exclude.clone()).all();
    for server in &here {
        let answer = by_datagram(*server, mark).await;
        let name = format!(
            "the name server {}, asked while connections go direct,",
            server.ip()
        );
        let advice = "does this device have Internet, and is that server right in resolv.conf?";
        tell(findings, &name, &answer, true, advice);
    }
    if !here.is_empty() {
        return;
    }
    let servers = match config.resolvers.as_slice() {
        [] => &PUBLIC_RESOLVERS,
        named => named,
    };
    for server in servers {
        let answer = by_connection(*server, mark).await;
        let name = format!(
            "the resolver {}, asked while connections go direct,",
            server.ip()
        );
        let advice = "does this device have Internet? `resolvers` under [transparent] names others";
        tell(findings, &name, &answer, true, advice);
    }
}

/// A resolver that is dead is a failure, unless programs can do without it.
fn tell(findings: &mut Findings, name: &str, answer: &Answer, is_spare: bool, advice: &str) {
    let detail = format!("{name} {answer}");
    match (answer.is_good(), is_spare) {
        (true, _) => findings.ok(CHECK, detail),
        (false, true) => findings.warn(CHECK, detail, advice),
        (false, false) => findings.fail(CHECK, detail, advice),
    }
}
