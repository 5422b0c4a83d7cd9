//! The API: its resources at a primary that runs.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::daemons::{Bond, WITHIN, Ways, origin, until};

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    /// That in this text; `None` where it is none.
    pub fn of(text: &str) -> Option<Self> {
        let (head, body) = text.split_once("\r\n\r\n")?;
        let code = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
        Some(Self {
            code,
            head: head.to_lowercase(),
            body: body.to_owned(),
        })
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    fn header(&self, name: &str) -> &str {
        let mut lines = self.head.lines();
        let line = lines.find_map(|line| line.strip_prefix(&format!("{name}: ")));
        line.unwrap_or_else(|| panic!("no {name}: {self:?}"))
    }
}

pub fn connect(bond: &Bond) -> UnixStream {
    let stream = UnixStream::connect(bond.file("primary.api")).unwrap();
    stream.set_read_timeout(Some(WITHIN)).unwrap();
    stream
}

/// Sends a request with further lines of its head, and reads the answer to the end.
#[track_caller]
pub fn ask_with(bond: &Bond, line: &str, more: &str, body: &str) -> Answer {
    let mut stream = connect(bond);
    let length = body.len();
    let head = format!("{line} HTTP/1.1\r\nHost: mpbond\r\nContent-Length: {length}\r\n{more}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    // One that refuses does not read all.
    let _ = stream.write_all(body.as_bytes());
    let mut text = Vec::new();
    // A body that was not read resets the connection behind the answer.
    let _ = stream.read_to_end(&mut text);
    let text = String::from_utf8(text).unwrap();
    Answer::of(&text).unwrap_or_else(|| panic!("{line}: {text}"))
}

#[track_caller]
pub fn ask(bond: &Bond, line: &str, body: &str) -> Answer {
    ask_with(bond, line, "", body)
}

/// The value in a right answer.
#[track_caller]
pub fn got(bond: &Bond, line: &str, body: &str) -> Value {
    let answer = ask(bond, line, body);
    assert_eq!(answer.code, 200, "{answer:?}");
    answer.json()
}

/// A listener to events or samples.
pub struct Listener(BufReader<UnixStream>);

impl Listener {
    pub fn new(bond: &Bond, resource: &str) -> Self {
        Self::with(bond, resource, "").0
    }

    /// One with these further lines of its head; and the head of the answer.
    fn with(bond: &Bond, resource: &str, more: &str) -> (Self, String) {
        let mut stream = connect(bond);
        let head = format!("GET {resource} HTTP/1.1\r\nHost: mpbond\r\n{more}\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert_eq!(line, "HTTP/1.1 200 OK\r\n");
        let mut answered = String::new();
        while line != "\r\n" {
            line.clear();
            reader.read_line(&mut line).unwrap();
            answered.push_str(&line);
        }
        (Self(reader), answered)
    }

    /// The next server-sent event as its id and data; lines with sizes of chunks are skipped, and
    /// an id without data.
    fn next_sent(&mut self) -> (Option<String>, Value) {
        let mut id = None;
        loop {
            let mut line = String::new();
            assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "it ends");
            if let Some(data) = line.strip_prefix("data: ") {
                let data = serde_json::from_str(data).unwrap();
                line.clear();
                self.0.read_line(&mut line).unwrap();
                assert_eq!(line, "\n", "an event ends with an empty line");
                return (id, data);
            }
            if let Some(text) = line.strip_prefix("id: ") {
                id = Some(text.trim_end().to_owned());
            }
            if line == "\n" {
                id = None;
            }
        }
    }

    /// The next event; lines with sizes of chunks are skipped. So is a link that falls silent, as
    /// it does when the other end gets no processor for 200 ms.
    pub fn next(&mut self) -> Value {
        loop {
            let mut line = String::new();
            assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "it ends");
            if line.starts_with('{') && !line.contains("\"link.suspect\"") {
                return serde_json::from_str(&line).unwrap();
            }
        }
    }
}

#[test]
fn status_streams_links_policy_and_events_are_those_of_the_daemon() {
    let origin = origin();
    let bond = Bond::new(Ways::Both, "", "");
    let mut daemons = ["proxy", "helper", "primary"].map(|role| bond.start(role));
    bond.joined(2);

    let status = got(&bond, "GET /v1/status", "");
    assert_eq!(status["role"], "primary");
    assert_eq!(status["links"].as_array().unwrap().len(), 2);

    assert_eq!(got(&bond, "GET /v1/streams", ""), json!({"streams": []}));
    let open: Vec<_> = (0..3).map(|_| bond.connect(origin).unwrap()).collect();
    let mut ids = Vec::new();
    let mut after = 0;
    loop {
        let page = got(&bond, &format!("GET /v1/streams?limit=2&after={after}"), "");
        for stream in page["streams"].as_array().unwrap() {
            assert_eq!(stream["destination"], origin.to_string());
            assert_eq!(stream["class"], "bulk");
            assert_eq!(stream["rule"], Value::Null);
            let uid = &stream["application"][1];
            let own = nix::unistd::geteuid().to_string();
            let known = json!(
                {"name": "uid", "value": own, "certainty": "known", "origin": "the kernel"}
            );
            assert_eq!(*uid, known);
            ids.push(stream["id"].as_u64().unwrap());
        }
        match page["next"].as_u64() {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(ids.len(), 3);
    assert!(ids.is_sorted());
    drop(open);
    until("the streams have ended", || {
        got(&bond, "GET /v1/streams", "") == json!({"streams": []})
    });

    let mut events = Listener::new(&bond, "/v1/events?since=0");
    let mut types: Vec<_> = (1..=2).map(|id| (events.next(), id)).collect();
    for (event, id) in &types {
        assert_eq!(event["id"], *id);
    }
    types.sort_by_key(|(event, _)| event["type"].to_string());
    assert_eq!(types[0].0["type"], "helper.joined");
    assert_eq!(types[0].0["link"], "helper");
    assert_eq!(types[1].0["type"], "link.up");
    assert_eq!(types[1].0["link"], "own");

    let before = ask(&bond, "GET /v1/policy", "");
    assert_eq!((before.code, &*before.body), (200, ""));
    let wrong = "[[rule]]\nname = \"x\"\nport = 0\nset = \"refuse\"\n";
    let checked = got(&bond, "POST /v1/policy:check", wrong);
    assert_eq!(checked["errors"][0]["line"], 3);
    assert_eq!(checked["errors"][0]["column"], 8);
    let right = format!(
        "[[rule]]\nname = \"x\"\nport = {}\nset = \"refuse\"\n",
        origin.port()
    );
    let checked = got(&bond, "POST /v1/policy:check", &right);
    assert_eq!(checked, json!({"errors": []}));
    assert!(bond.works(origin), "a check changes nothing");

    let put = |tag: &str, policy: &str| {
        ask_with(
            &bond,
            "PUT /v1/policy",
            &format!("If-Match: {tag}\r\n"),
            policy,
        )
    };
    assert_eq!(ask(&bond, "PUT /v1/policy", &right).code, 428);
    assert_eq!(put("\"0\"", &right).code, 412);
    let refused = put(before.header("etag"), wrong);
    assert_eq!(refused.code, 422);
    assert_eq!(refused.json()["place"], json!({"line": 3, "column": 8}));
    assert!(bond.works(origin), "nothing is applied");
    let done = put(before.header("etag"), &right);
    assert_eq!((done.code, &*done.body), (200, &*right));
    assert!(bond.connect(origin).is_err(), "the rule is in force");
    let event = events.next();
    assert_eq!(
        (&event["id"], &event["type"]),
        (&json!(3), &json!("policy.changed"))
    );
    assert_eq!(
        put(before.header("etag"), "").code,
        412,
        "another has changed it"
    );

    let question = format!("{{\"ip\": \"192.0.2.1\", \"port\": {}}}", origin.port());
    let why = got(&bond, "POST /v1/explain", &question);
    assert_eq!(
        (&why["action"], &why["rule"]["name"]),
        (&json!("refuse"), &json!("x"))
    );

    // It holds until the file is read again.
    let tag = done.header("etag").to_owned();
    mpbond::status_socket::reload(&bond.file("primary.sock")).unwrap();
    // One of an earlier connection may come before.
    while events.next()["type"] != "policy.changed" {}
    assert_eq!(put(&tag, "").code, 412);
    assert!(bond.works(origin));

    let [_, _, primary] = &mut daemons;
    assert!(primary.stop().success());
    assert!(!bond.file("primary.api").exists(), "it removes its socket");
}

#[test]
fn a_link_that_is_switched_off_carries_nothing_more_and_comes_back() {
    let origin = origin();
    let bond = Bond::new(Ways::Both, "", "");
    let _daemons = ["proxy", "helper", "primary"].map(|role| bond.start(role));
    bond.joined(2);
    let mut events = Listener::new(&bond, "/v1/events");
    // A download that is under way meanwhile.
    let mut download = bond.connect(origin).unwrap();
    let size = 20_000_000_u32;
    download.write_all(&size.to_be_bytes()).unwrap();
    let mut got_first = vec![0; 1_000_000];
    download.read_exact(&mut got_first).unwrap();

    let change = |name: &str, mode: &str| {
        ask(
            &bond,
            &format!("PATCH /v1/links/{name}"),
            &format!("{{\"mode\": \"{mode}\"}}"),
        )
    };
    let off = change("own", "off").json();
    assert_eq!(
        (&off["mode"], &off["state"]),
        (&json!("off"), &json!("off"))
    );
    let event = events.next();
    assert_eq!(
        (&event["type"], &event["link"]),
        (&json!("link.down"), &json!("own"))
    );
    // The new subflow's numbers begin at zero, so the old one's are those that stand still.
    let bytes_of = |name: &str| {
        let status = bond.status("primary").unwrap();
        let path = status.paths.iter().find(|path| path.name == name).unwrap();
        path.bytes_in
    };
    let mut own = bytes_of("own");
    until("what was under way has arrived", || {
        std::thread::sleep(Duration::from_millis(500));
        std::mem::replace(&mut own, bytes_of("own")) == own
    });
    let helper = bytes_of("helper");
    let mut rest = vec![0; size as usize - got_first.len()];
    download.read_exact(&mut rest).unwrap();
    assert!(
        crate::daemons::is_pattern(1_000_000, &rest),
        "no byte is lost"
    );
    assert_eq!(
        bytes_of("own"),
        own,
        "nothing arrives on the link that is off"
    );
    assert!(bytes_of("helper") > helper, "all arrives on the other one");

    let last = change("helper", "off");
    assert_eq!(last.code, 409, "{last:?}");
    assert_eq!(got(&bond, "GET /v1/links/own", "")["mode"], "off");

    assert_eq!(change("own", "standby").json()["mode"], "standby");
    until("it waits in reserve", || {
        let status = bond.status("primary").unwrap();
        let subflows = &status.sessions[0].subflows;
        subflows
            .iter()
            .any(|s| s.name == "own" && s.state == "backup")
    });
    assert_eq!(change("own", "bonded").json()["mode"], "bonded");
    bond.joined(2);
    // A reload changes no mode.
    change("helper", "standby");
    mpbond::status_socket::reload(&bond.file("primary.sock")).unwrap();
    assert_eq!(got(&bond, "GET /v1/links/helper", "")["mode"], "standby");
}

#[test]
fn an_upgrade_keeps_the_socket_and_ends_the_listeners() {
    let bond = Bond::new(Ways::Own, "", "");
    let _proxy = bond.start("proxy");
    let first = bond.start("primary");
    bond.joined(1);
    let mut events = Listener::new(&bond, "/v1/events");
    let before = got(&bond, "GET /v1/status", "")["process"].clone();
    let _second = bond.upgrade("primary").unwrap();
    let now = got(&bond, "GET /v1/status", "")["process"].clone();
    assert_ne!(now, before);
    let mut rest = Vec::new();
    let ended = events.0.read_to_end(&mut rest);
    assert!(ended.is_ok() || rest.is_empty(), "{ended:?}");
    drop(first);
    assert_eq!(got(&bond, "GET /v1/status", "")["process"], now);
}

#[test]
fn programs_are_run_on_events_of_a_primary_and_of_the_one_after_it() {
    let bond = Bond::new(Ways::Both, "", "");
    let folder = bond.file("on.d");
    std::fs::create_dir(&folder).unwrap();
    let to = bond.file("events");
    let text = format!("#!/bin/sh\necho $1 $2 >>{}\n", to.display());
    mpbond_testing::write_script(folder.join("10-write"), &text);
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    // It waits for the primary.
    let mut on = Command::new(env!("CARGO_BIN_EXE_mpbond"))
        .args(["on", "--exec"])
        .arg(&folder)
        .arg("--config")
        .arg(bond.file("primary.toml"))
        .spawn()
        .unwrap();
    let _others = ["proxy", "helper"].map(|role| bond.start(role));
    let times = |line: &str| {
        let text = std::fs::read_to_string(&to).unwrap_or_default();
        text.lines().filter(|l| *l == line).count()
    };
    for start in 1..=2 {
        let mut primary = bond.start("primary");
        until("the links are up", || {
            times("link.up own") == start && times("helper.joined helper") == start
        });
        assert!(primary.stop().success());
    }
    on.kill().unwrap();
    on.wait().unwrap();
}

#[test]
fn a_mode_is_chosen_where_it_has_an_effect_and_only_a_change_of_it_is_an_event() {
    let bond = Bond::new(Ways::Own, "policy = \"policy.toml\"", "");
    std::fs::write(bond.file("policy.toml"), "").unwrap();
    let _daemons = ["proxy", "primary"].map(|role| bond.start(role));
    bond.joined(1);
    let mut events = Listener::new(&bond, "/v1/events");
    assert_eq!(
        got(&bond, "GET /v1/mode", ""),
        json!({"mode": "auto", "has_effect": false})
    );
    let saver = "{\"mode\": \"saver\"}";
    let refused = ask(&bond, "PUT /v1/mode", saver);
    assert_eq!(refused.code, 422);
    let error = refused.json();
    assert_eq!(error.get("place"), None, "the client has sent no policy");
    let said = error["error"].as_str().unwrap();
    assert!(said.starts_with("the mode has no effect: "), "{said}");

    let policy = "[policy]\nmode = \"saver\"\n[[link]]\nname = \"own\"\ncost = 3\n";
    std::fs::write(bond.file("policy.toml"), policy).unwrap();
    mpbond::status_socket::reload(&bond.file("primary.sock")).unwrap();
    let changed = events.next();
    assert_eq!(changed["type"], "policy.changed");
    // Gone is what follows an event that has not been.
    let next = changed["id"].as_u64().unwrap() + 1;
    let after = || ask(&bond, &format!("GET /v1/events?since={next}"), "").code;
    let now = json!({"mode": "saver", "has_effect": true});
    assert_eq!(got(&bond, "PUT /v1/mode", saver), now);
    assert_eq!(after(), 410, "the mode that is in force is no event");
    let other = "{\"mode\": \"fastest\"}";
    assert_eq!(got(&bond, "PUT /v1/mode", other)["mode"], "fastest");
    let changed = events.next();
    assert_eq!(
        (&changed["id"], &changed["type"]),
        (&json!(next), &json!("policy.changed"))
    );
}

#[test]
fn events_and_samples_have_thirty_two_readers_together_and_places_become_free() {
    let bond = Bond::new(Ways::Own, "", "");
    let _daemons = ["proxy", "primary"].map(|role| bond.start(role));
    let slow = "/v1/samples?every_ms=60000";
    let mut readers: Vec<_> = (0..32).map(|_| Listener::new(&bond, slow)).collect();
    for reader in &mut readers {
        assert!(reader.next()["links"].is_array());
    }
    for resource in ["/v1/events", "/v1/samples"] {
        assert_eq!(ask(&bond, &format!("GET {resource}"), "").code, 503);
    }
    // Long before its next sample.
    readers.pop();
    until("a place is free", || {
        let mut stream = connect(&bond);
        let head = "GET /v1/events HTTP/1.1\r\nHost: mpbond\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        line == "HTTP/1.1 200 OK\r\n"
    });
}

#[test]
fn events_are_server_sent_where_a_client_asks_for_them_and_go_on_after_the_last_one() {
    let bond = Bond::new(Ways::Own, "policy = \"policy.toml\"", "");
    let policy = |n: usize| format!("[[rule]]\nname = \"{n}\"\nport = 9\nset = \"refuse\"\n");
    std::fs::write(bond.file("policy.toml"), "").unwrap();
    let _daemons = ["proxy", "primary"].map(|role| bond.start(role));
    bond.joined(1);
    let change = |n| {
        let answer = ask_with(&bond, "PUT /v1/policy", "If-Match: *\r\n", &policy(n));
        assert_eq!(answer.code, 200, "{answer:?}");
    };
    let sent = "Accept: text/event-stream\r\n";
    let (mut events, head) = Listener::with(&bond, "/v1/events?since=0", sent);
    let content = "content-type: text/event-stream\r\n";
    assert!(head.to_lowercase().contains(content), "{head}");
    let (id, up) = events.next_sent();
    let first = id.unwrap();
    let (start, number) = first.split_once('-').unwrap();
    assert_eq!(
        (number, &up["id"], &up["type"]),
        ("1", &json!(1), &json!("link.up"))
    );
    change(0);
    let changed = loop {
        let (id, event) = events.next_sent();
        assert_eq!(id, Some(format!("{start}-{}", event["id"])));
        if event["type"] == "policy.changed" {
            break event;
        }
    };
    drop(events);
    // It comes again after others.
    (1..=3).for_each(change);
    let last = changed["id"].as_u64().unwrap();
    let again = format!("{sent}Last-Event-ID: {start}-{last}\r\n");
    let (mut events, _) = Listener::with(&bond, "/v1/events?since=0", &again);
    for next in last + 1..=last + 3 {
        let (id, event) = events.next_sent();
        assert_eq!(id, Some(format!("{start}-{next}")));
        assert_eq!(event["id"], next);
    }
    let code = |more: &str| ask_with(&bond, "GET /v1/events", &format!("{sent}{more}"), "").code;
    assert_eq!(code(&format!("Last-Event-ID: {start}-9999\r\n")), 410);
    assert_eq!(code("Last-Event-ID: x\r\n"), 400);
}

#[test]
fn an_open_connection_is_explained_by_the_rule_with_which_it_was_opened() {
    let (origin, other) = (origin(), origin());
    let bond = Bond::new(Ways::Both, "policy = \"policy.toml\"", "");
    let policy = format!(
        "[policy]\n[[rule]]\nname = \"kept\"\nport = {}\nset = {{ paths = [\"own\"] }}\n",
        origin.port()
    );
    std::fs::write(bond.file("policy.toml"), &policy).unwrap();
    let _daemons = ["proxy", "helper", "primary"].map(|role| bond.start(role));
    bond.joined(2);
    let open = [bond.connect(origin).unwrap(), bond.connect(other).unwrap()];
    let why = |of: usize| {
        let client = open[of].local_addr().unwrap();
        got(&bond, &format!("GET /v1/streams/{client}/explain"), "")
    };
    let links = |why: &Value| {
        let links = why["links"].as_array().unwrap().iter();
        let links = links.map(|link| (link["unusable"].clone(), link["used"].clone()));
        links.collect::<Vec<_>>()
    };
    let (first, second) = (why(0), why(1));
    assert_eq!(
        (&first["rule"], &first["line"]),
        (&json!("kept"), &json!(2))
    );
    let only_own = [
        (Value::Null, json!(true)),
        (json!("not-allowed"), json!(false)),
    ];
    assert_eq!(links(&first), only_own, "{first}");
    assert_eq!(first["now"]["rule"]["name"], "kept");
    assert_eq!(second["rule"], Value::Null);
    assert!(
        links(&second)
            .iter()
            .all(|link| *link == (Value::Null, json!(true)))
    );
    // Another policy leaves it as it is, and an event tells of it.
    let mut events = Listener::new(&bond, "/v1/events");
    let none = ask_with(&bond, "PUT /v1/policy", "If-Match: *\r\n", "");
    assert_eq!(none.code, 200, "{none:?}");
    let after = why(0);
    assert_eq!(
        (&after["rule"], links(&after)),
        (&json!("kept"), only_own.to_vec())
    );
    assert_eq!(
        (&after["policy_has_changed"], &after["now"]["rule"]),
        (&json!(true), &Value::Null)
    );
    let client = open[0].local_addr().unwrap();
    let told = |events: &mut Listener, to: Value, would: &str| {
        assert_eq!(events.next()["type"], "policy.changed");
        let event = events.next();
        assert_eq!(
            [
                &event["type"],
                &event["stream"],
                &event["from"],
                &event["to"]
            ],
            [&json!("stream.rule"), &after["id"], &json!("kept"), &to]
        );
        let reason = format!("{client} to {origin} keeps the rule \"kept\", {would}");
        assert_eq!(event["reason"], reason);
    };
    told(
        &mut events,
        Value::Null,
        "but the default would treat it otherwise",
    );
    let put = |text: &str| {
        let put = ask_with(&bond, "PUT /v1/policy", "If-Match: *\r\n", text);
        assert_eq!(put.code, 200, "{put:?}");
    };
    // The other one is as it was.
    put(&format!(
        "[[rule]]\nname = \"no\"\nport = {}\nset = \"refuse\"\n",
        origin.port()
    ));
    told(
        &mut events,
        json!("no"),
        "but the rule \"no\" would refuse it",
    );
    put(&policy);
    told(&mut events, json!("kept"), "which would apply again");
    put(&format!("# The same.\n{policy}"));
    assert_eq!(events.next()["type"], "policy.changed");
    put("");
    told(
        &mut events,
        Value::Null,
        "but the default would treat it otherwise",
    );
    // Of one destination, or one application.
    let to = |query: &str| {
        let page = got(&bond, &format!("GET /v1/streams?{query}"), "");
        page["streams"].as_array().unwrap().clone()
    };
    let found = to(&format!("destination={other}&limit=1"));
    assert_eq!(found[0]["destination"], other.to_string());
    assert_eq!((found.len(), to("destination=a.example:1").len()), (1, 0));
    match found[0]["application"][0]["value"].as_str() {
        Some(app) => assert_eq!(to(&format!("app={app}")).len(), 2),
        None => assert!(to("app=a.service").is_empty()),
    }
    assert_eq!(ask(&bond, "GET /v1/streams?app=%zz", "").code, 400);
    assert_eq!(ask(&bond, "GET /v1/streams/99/explain", "").code, 404);
}
