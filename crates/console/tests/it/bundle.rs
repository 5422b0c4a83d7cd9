//! Diagnostic bundles: what is in them and what is not, and who gets them.

use std::net::TcpListener;

use serde_json::{Value, json};

use crate::console::{CONSOLE, Console};
use crate::daemon::{Daemon, primary, stream};
use crate::page::open;
use crate::real::{PASSWORD, POLICY, download, start, until};

/// Head and body of the answer to a request for a bundle.
fn ask(console: &Console, more: &str) -> (String, String) {
    let answer = console.get("/diagnostics", more);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

fn bundle(console: &Console) -> (String, Value) {
    let (head, text) = ask(console, &console.bearer());
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(
        head.contains("attachment; filename=\"mpbond-diagnostics.json\""),
        "{head}"
    );
    let value = serde_json::from_str(&text).unwrap();
    (text, value)
}

/// A primary with streams to this destination.
fn busy(t: f64) -> Value {
    let mut value = primary(t, &[("wifi", "path", "up", 1e6 * t, 0.0)]);
    let of = |n| stream(n, "secret.example:443", "bulk", &[("wifi", 5000, 1)]);
    value["transfers"] = json!([of(1), of(2)]);
    value["notes"] = json!(["a note"]);
    value["waiting"] = json!([{ "client": "127.0.0.1:5", "destination": "secret.example:25",
        "rule": "<b>late</b>", "waits_for": "radio", "waited_s": 3.5, "left_s": 61.0 }]);
    value["waiting_count"] = json!(2);
    value
}

#[test]
fn a_bundle_is_for_those_who_have_the_token_and_no_view_gives_one() {
    let daemon = Daemon::start(busy);
    let console = Console::start(daemon.place());
    let (head, body) = ask(&console, "");
    assert!(
        head.starts_with("HTTP/1.1 401 ") && !body.contains("wifi"),
        "{head}"
    );
    let (text, value) = bundle(&console);
    assert!(!text.contains("secret.example"), "{text}");
    let status = &value["status"];
    assert_eq!(status["notes"], json!(["a note"]));
    assert_eq!(status["transfers_left_out"], 2);
    assert_eq!(status["waiting_count"], 2);
    assert_eq!(status["links"][0]["name"], "wifi");
    let why = value["policy"]["error"].as_str().unwrap();
    assert!(why.contains("status.api: there is no such socket"), "{why}");
    let why = value["doctor"]["error"].as_str().unwrap();
    assert!(
        why.contains("the daemon has told no configuration: run mpbond doctor primary"),
        "{why}"
    );
    let options = ["--socket", daemon.place(), "--read-only"];
    let view = Console::start_with(&options, &[]);
    let (head, _) = ask(&view, &view.bearer());
    assert!(head.starts_with("HTTP/1.1 404 "), "{head}");
}

#[test]
fn a_bundle_has_the_doctors_findings_and_no_keys_no_tokens_and_no_destinations() {
    // The console looks for it beside itself.
    CONSOLE.mpbond();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("primary.sock");
    let socks5 = start(folder.path());
    until(&socket, |frame| frame["paths"][1]["state"] == "up");
    // It says nothing: what moves would disturb other tests.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let from = silent.local_addr().unwrap();
    download(socks5, from);
    until(&socket, |frame| frame["streams"]["open"] == 1);
    let console = Console::start(socket.to_str().unwrap());
    let request = r#"{"listen": "127.0.0.1:0"}"#;
    let answer = console.request(&format!(
        "POST /v1/pairing HTTP/1.1\r\nHost: localhost:{}\r\n{}Sec-Fetch-Site: same-origin\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{request}",
        console.port,
        console.bearer(),
        request.len()
    ));
    let pairing: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    let code = pairing["code"].as_str().unwrap();

    let (text, value) = bundle(&console);
    assert_eq!(value["status"]["role"], "primary");
    assert_eq!(value["status"]["links"][1]["name"], "phone");
    assert_eq!(value["policy"], POLICY);
    assert!(value["events"].is_array());
    let doctor = value["doctor"].as_array();
    let doctor = doctor.unwrap_or_else(|| panic!("{}", value["doctor"]));
    assert!(doctor.iter().all(|finding| finding["role"] == "primary"));
    let running = doctor.iter().find(|finding| finding["check"] == "daemon");
    let detail = format!("runs and answers at {}", socket.display());
    assert_eq!(running.unwrap()["detail"], detail);
    for check in ["path wifi", "helper phone"] {
        let is_checked = doctor.iter().any(|finding| finding["check"] == check);
        assert!(is_checked, "{check}: {doctor:#?}");
    }
    let mut secrets = vec![
        console.token.clone(),
        code.to_owned(),
        PASSWORD.to_owned(),
        from.to_string(),
    ];
    for role in ["proxy", "helper", "primary"] {
        let key = std::fs::read_to_string(folder.path().join(format!("{role}.pem"))).unwrap();
        let lines = key.lines().filter(|line| !line.starts_with("-----"));
        secrets.extend(lines.filter(|line| !line.is_empty()).map(str::to_owned));
    }
    assert!(secrets.len() >= 7, "a line of each key");
    for secret in secrets {
        assert!(!text.contains(&secret), "{secret}");
    }
}

#[test]
fn the_page_saves_a_bundle() {
    let daemon = Daemon::start(busy);
    let console = Console::start(daemon.place());
    let Some(mut page) = open(&daemon, &console, 1280, 900) else {
        return;
    };
    page.until("!document.getElementById('bundle').hidden");
    // The browser of a test saves nothing: what it would save is read here.
    page.eval(
        "(URL.createObjectURL = (blob) => { blob.text().then((t) => { window.saved = t; });
            return 'blob:nothing' }, HTMLAnchorElement.prototype.click = function () {
            window.named = this.download }, 1)",
    );
    page.click("#bundle-save");
    page.until("!!window.saved");
    assert_eq!(page.eval("named"), "mpbond-diagnostics.json");
    assert_eq!(page.eval("JSON.parse(saved).status.role"), "primary");
    page.until("!document.getElementById('bundle-save').disabled");
    page.until("/read it before/.test(document.getElementById('bundle-text').textContent)");
    assert_eq!(page.faults(), Vec::<String>::new());
}
