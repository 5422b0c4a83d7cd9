//! A status socket that answers what the test wants.

use std::io::Write;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};

/// A daemon of one answer after another. It ends with the test's process.
pub struct Daemon {
    pub socket: PathBuf,
    answer: Arc<Mutex<Make>>,
    asked: Arc<Mutex<u64>>,
    folder: tempfile::TempDir,
}

type Make = Box<dyn Fn(f64) -> String + Send>;

impl Daemon {
    /// Answers with `make(uptime)`.
    pub fn start(make: impl Fn(f64) -> Value + Send + 'static) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("status.sock");
        let answer: Make = Box::new(move |uptime| make(uptime).to_string());
        let daemon = Self {
            socket,
            answer: Arc::new(Mutex::new(answer)),
            asked: Arc::default(),
            folder,
        };
        daemon.listen();
        daemon
    }

    /// Listens at its socket; again after [`Daemon::stop`].
    pub fn listen(&self) {
        let listener = UnixListener::bind(&self.socket).unwrap();
        let (answer, asked) = (Arc::clone(&self.answer), Arc::clone(&self.asked));
        let start = Instant::now();
        thread::spawn(move || {
            for stream in listener.incoming() {
                *asked.lock().unwrap() += 1;
                let text = answer.lock().unwrap()(start.elapsed().as_secs_f64());
                // A client may go away.
                let _ = stream.unwrap().write_all(text.as_bytes());
            }
        });
    }

    /// From now on nothing is found at the socket.
    pub fn stop(&self) {
        std::fs::remove_file(&self.socket).unwrap();
    }

    /// Answers with this from now on.
    pub fn say(&self, make: impl Fn(f64) -> Value + Send + 'static) {
        *self.answer.lock().unwrap() = Box::new(move |uptime| make(uptime).to_string());
    }

    /// How often it has been asked.
    pub fn asked(&self) -> u64 {
        *self.asked.lock().unwrap()
    }

    /// A folder of the test.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Accepts connections and says nothing, or closes each of them at once.
    pub fn mute(&self, closes: bool) {
        self.stop();
        let listener = UnixListener::bind(&self.socket).unwrap();
        thread::spawn(move || {
            let mut kept = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                if closes {
                    // The question is read, so that the end is no reset.
                    let _ = std::io::Read::read_to_end(&mut stream, &mut Vec::new());
                } else {
                    kept.push(stream);
                }
            }
        });
    }

    /// Its socket, for command lines.
    pub fn place(&self) -> &str {
        self.socket.to_str().unwrap()
    }
}

/// The id of a device: eight groups.
pub fn id(letter: char) -> String {
    vec![letter.to_string().repeat(7); 8].join("-")
}

/// A path of a primary: name, kind, state of its subflow, bytes in and out.
pub type PathFacts<'a> = (&'a str, &'a str, &'a str, f64, f64);

/// Status of a primary with these paths.
pub fn primary(uptime: f64, paths: &[PathFacts<'_>]) -> Value {
    let number = |v: f64| v.max(0.0) as u64;
    let subflows = paths
        .iter()
        .filter(|p| p.2 != "waiting")
        .map(|(name, kind, state, i, o)| {
            json!({
                "name": name, "kind": if *kind == "path" { "direct" } else { "helper" },
                "state": state, "bytes_in": number(*i), "bytes_out": number(*o),
                "rtt_ms": 23.4, "pad_ms": 31.0, "b_s": 0, "b_p": 20_000, "far_th_mbps": null,
            })
        });
    let session = json!({
        "id": "aa", "peer": id('B'), "state": "up", "scheduler": "mpbond", "streams_open": 3,
        "subflows": subflows.collect::<Vec<_>>(),
    });
    let links = paths
        .iter()
        .map(|p| json!({ "name": p.0, "kind": p.1, "state": p.2 }));
    let totals = paths.iter().map(|p| {
        json!({ "peer": id('B'), "name": p.0, "bytes_in": number(p.3), "bytes_out": number(p.4) })
    });
    json!({
        "role": "primary", "device": id('A'), "version": "0.1.0", "process": 4711,
        "uptime_s": uptime, "sessions": [session], "links": links.collect::<Vec<_>>(),
        "paths": totals.collect::<Vec<_>>(),
    })
}

/// A stream of that primary.
pub fn stream(number: u64, destination: &str, class: &str, shares: &[(&str, u64, u64)]) -> Value {
    let sum = |of: fn(&(&str, u64, u64)) -> u64| shares.iter().map(of).sum::<u64>();
    let subflows = shares
        .iter()
        .map(|(name, down, up)| json!({ "name": name, "bytes_in": down, "bytes_out": up }));
    json!({
        "session": "aa", "stream": number, "destination": destination, "class": class,
        "state": "open", "bytes_in": sum(|s| s.1), "bytes_out": sum(|s| s.2), "opened_s": 0.0,
        "first_byte_s": null, "closed_s": null, "redundant_bytes": 0,
        "subflows": subflows.collect::<Vec<_>>(),
    })
}
