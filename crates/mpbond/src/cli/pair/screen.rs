//! Output and questions of a pairing, for a person or as JSON for a script.

use std::cell::Cell;
use std::io::{BufRead, IsTerminal};
use std::rc::Rc;
use std::time::Duration;

use mpbond::config::{OnProxyLoss, PrimaryConfig, Role};
use mpbond::pairing::{Event, Own, Paired};
use mpbond::status_socket::ask;
use mpbond_command::{Failure, note, print, prompt};
use mpbond_net::pairing::{self, Introduction, Invitation, Peer};
use serde_json::json;
use tokio::sync::oneshot;

use super::super::hints::{command, reload, start, sudo};
use super::qr::picture;
use mpbond_units::human::span;
use mpbond_units::shell_word;

/// Standard error has questions and events, standard output the result.
pub(in crate::cli) struct Screen {
    own: Own,
    json: bool,
    asker: Rc<Asker>,
}

/// Dialogue with the person at this device.
pub(super) struct Asker {
    own: Own,
    yes: bool,
    json: bool,
    /// A question met the end of standard input.
    unanswered: Cell<bool>,
}

fn what(i: &Introduction) -> String {
    match i.service {
        Some(service) if !service.ip().is_unspecified() => {
            format!("a {} at {service}", i.role.name())
        }
        _ => format!("a {}", i.role.name()),
    }
}

impl Screen {
    pub(in crate::cli) fn new(own: Own, json: bool, yes: bool) -> Self {
        let asker = Rc::new(Asker {
            own: own.clone(),
            yes,
            json,
            unanswered: Cell::default(),
        });
        Self { own, json, asker }
    }

    pub(super) fn asker(&self) -> Rc<Asker> {
        Rc::clone(&self.asker)
    }

    /// Shows the invitation.
    pub(super) fn invite(&self, invitation: &Invitation, within: Duration) {
        let over_network = !invitation.addresses.is_empty();
        let text = over_network.then(|| invitation.to_string());
        if self.json {
            let addresses: Vec<String> = invitation
                .addresses
                .iter()
                .map(ToString::to_string)
                .collect();
            let event = json!({
                "event": "listening",
                "code": invitation.code.to_string(),
                "addresses": addresses,
                "id": invitation.id.to_string(),
                "text": text,
                "seconds": within.as_secs(),
            });
            // A closed standard output is noticed at the end.
            let _ = print(&format!("{event}\n"));
            return;
        }
        let picture = (text.as_deref())
            .and_then(|text| picture(text, true))
            .filter(|_| std::io::stderr().is_terminal());
        let shown = picture.is_some();
        let mut out = picture.unwrap_or_default();
        out.push_str(&format!(
            "This device, \"{}\", is {}. It waits for {}.\nOn the other one, run:\n\n",
            self.own.introduction.name,
            what(&self.own.introduction),
            span(within.as_secs_f64())
        ));
        let code = &invitation.code;
        for address in &invitation.addresses {
            let address = address.to_string();
            let address = shell_word(&address);
            out.push_str(&format!("  {}mpbond pair {address} {code}\n", sudo()));
        }
        match text {
            Some(text) => out.push_str(&format!(
                "\nor, with {}:\n\n  {}mpbond pair {}\n",
                if shown {
                    "what the picture says"
                } else {
                    "a text to paste"
                },
                sudo(),
                shell_word(&text)
            )),
            None => out.push_str(&format!(
                "  {}mpbond pair unix:PATH {code}\n\nwhere PATH is the --socket of `mpbond \
                 bluetooth connect` there.\n",
                sudo()
            )),
        }
        prompt!("{out}");
    }

    /// Shows a refused caller.
    pub(super) fn event(&self, event: &Event) {
        let Event::Refused {
            from,
            device,
            problem,
        } = event;
        if self.json {
            let event = json!({
                "event": "refused",
                "from": from.to_string(),
                "device": device.map(|d| d.to_string()),
                "problem": problem,
            });
            let _ = print(&format!("{event}\n"));
        } else {
            note!("{from}: {problem}");
        }
    }

    /// Shows the result.
    pub(super) fn paired(&self, role: Role, paired: &Paired) -> Result<(), Failure> {
        let (peer, entry) = (&paired.peer, &paired.entry);
        let i = &peer.introduction;
        if self.json {
            let event = json!({
                "event": "paired",
                "peer": {
                    "id": peer.id.to_string(),
                    "name": i.name,
                    "role": i.role.name(),
                },
                "file": entry.path.display().to_string(),
                "changed": entry.is_new,
            });
            return print(&format!("{event}\n"));
        }
        let next = match role {
            Role::Primary if !entry.is_new => format!(
                "Nothing has changed. Then see whether all is well: {}",
                command("doctor primary", role, &entry.path)
            ),
            Role::Primary => {
                let file = &entry.path;
                let socket = PrimaryConfig::load(file).map(|c| c.status_socket);
                let running = socket.is_ok_and(|socket| ask(&socket).is_ok());
                let hint = match i.role {
                    pairing::Role::Helper if running => reload(role, file),
                    _ => start(role, file, running),
                };
                let doctor = command("doctor primary", role, file);
                format!("{hint}\nThen see whether all is well: {doctor}")
            }
            Role::Helper | Role::Proxy => {
                "It may connect at once; nothing needs restarting.".to_owned()
            }
        };
        print(&format!("{}\n{next}\n", in_words(paired)))
    }
}

/// Result of a pairing in a sentence.
pub(in crate::cli) fn in_words(paired: &Paired) -> String {
    let (peer, entry) = (&paired.peer, &paired.entry);
    let known = if entry.is_new {
        ""
    } else {
        ", as it was before"
    };
    format!(
        "Paired with \"{}\", {}, {}{known} ({}).",
        peer.introduction.name,
        what(&peer.introduction),
        peer.id,
        entry.path.display()
    )
}

impl Asker {
    /// Asks whether the other device is the intended one.
    pub(super) async fn agrees(&self, peer: &Peer) -> bool {
        let (own, i) = (&self.own, &peer.introduction);
        if !self.json {
            prompt!(
                "\nThe other device:\n  {}\n  \"{}\", {}\nThis device:\n  {}\n  \"{}\", {}\n",
                peer.id,
                i.name,
                what(i),
                own.identity.id(),
                own.introduction.name,
                what(&own.introduction)
            );
        }
        if self.yes {
            return true;
        }
        prompt!("Shall they trust each other? [y/N] ");
        let Some(answer) = line().await else {
            note!("");
            self.unanswered.set(true);
            return false;
        };
        ["y", "yes"].contains(&answer.as_str())
    }

    /// Whether a question met the end of standard input.
    pub(super) fn is_unanswered(&self) -> bool {
        self.unanswered.get()
    }

    /// Asks for the policy for new connections without a path to the proxy. `None` keeps the
    /// default: nothing may be asked, or there is no answer.
    pub(super) async fn policy(&self) -> Option<OnProxyLoss> {
        if self.yes {
            return None;
        }
        prompt!(
            "\nWhile no path to the proxy works, new connections can\n  \
             d  go direct, past the proxy: origins and the local network see them, and whoever \
             blocks all\n     paths for 1.5 s can bring that about\n  \
             f  fail until a path works again\n\
             Which? [D/f] "
        );
        match line().await?.as_str() {
            "f" | "fail" => Some(OnProxyLoss::Fail),
            "" | "d" | "direct" => Some(OnProxyLoss::Direct),
            _ => {
                note!("Neither d nor f: direct, unless `on_proxy_loss` is changed.");
                None
            }
        }
    }
}

/// A line of standard input, trimmed and in lower case; `None` at its end.
async fn line() -> Option<String> {
    let (said, answer) = oneshot::channel();
    // Reading a line cannot be cancelled; the thread ends with the program.
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = std::io::stdin().lock().read_line(&mut line);
        let line = read
            .is_ok_and(|n| n > 0)
            .then(|| line.trim().to_ascii_lowercase());
        let _ = said.send(line);
    });
    answer.await.ok().flatten()
}
