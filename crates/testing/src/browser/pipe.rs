//! Connection to a browser: messages of the Chrome DevTools Protocol over two pipes, each ended by
//! a zero octet.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::Chromium;

/// Time for an answer, which takes some milliseconds on an idle machine.
const WITHIN: Duration = Duration::from_secs(180);

/// Gives the browser its pipes, descriptors 3 and 4.
const COMMAND: [&str; 4] = [
    "sh",
    "-c",
    "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null",
    "sh",
];

/// Runs it without a network.
const APART: [&str; 2] = ["unshare", "-Urn"];

/// A browser that answers.
#[derive(Debug)]
pub(super) struct Pipe {
    // Closed first, upon which the browser ends.
    to: ChildStdin,
    from: Receiver<Value>,
    browser: Chromium,
    last: u64,
    /// Events that have arrived, in order.
    pub events: Vec<Value>,
}

impl Pipe {
    /// Starts a browser with profile and log in `folder`, without a network or with the test's own.
    pub fn open(folder: &Path, has_network: bool) -> Self {
        let apart = if has_network { &[][..] } else { &APART };
        let mut browser = Chromium::spawn(
            &[apart, &COMMAND].concat(),
            folder,
            ["--remote-debugging-pipe", "about:blank"],
            |command, _| {
                command.stdin(Stdio::piped()).stdout(Stdio::piped());
            },
        );
        let to = browser.child.stdin.take().unwrap();
        let output = browser.child.stdout.take().unwrap();
        let (sender, from) = channel();
        thread::spawn(move || {
            for message in BufReader::new(output).split(0) {
                let Some(message) = message.ok().and_then(|m| serde_json::from_slice(&m).ok())
                else {
                    return;
                };
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Self {
            to,
            from,
            browser,
            last: 0,
            events: Vec::new(),
        }
    }

    /// Calls a method; returns its result. An empty `session` is that of the browser itself.
    ///
    /// # Panics
    /// When it fails, or there is no answer in time.
    pub fn call(&mut self, session: &str, method: &str, params: Value) -> Value {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": params });
        if !session.is_empty() {
            message["sessionId"] = session.into();
        }
        let mut octets = serde_json::to_vec(&message).unwrap();
        octets.push(0);
        if let Err(e) = self.to.write_all(&octets) {
            panic!("{method}: {e}\n{}", self.browser.log());
        }
        loop {
            let Ok(mut answer) = self.from.recv_timeout(WITHIN) else {
                panic!("{method}: no answer\n{}", self.browser.log());
            };
            if answer["id"].is_null() {
                self.events.push(answer);
            } else if answer["id"] == self.last {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].take();
            }
        }
    }

    /// Waits for an event; those before it stay in the list.
    ///
    /// # Panics
    /// When it does not arrive in time.
    pub fn wait_for(&mut self, event: &str, since: usize) {
        while !self.events[since..].iter().any(|e| e["method"] == event) {
            match self.from.recv_timeout(WITHIN) {
                Ok(message) => self.events.push(message),
                Err(_) => panic!("no {event}\n{}", self.browser.log()),
            }
        }
    }
}
