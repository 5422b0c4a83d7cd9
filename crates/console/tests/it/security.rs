//! What the server of the page refuses: other hosts and methods, requests without the token, too
//! many and too slow clients.

use std::io::{Read, Write};
use std::net::{Ipv6Addr, TcpStream, UdpSocket};
use std::os::unix::net::UnixListener;
use std::thread;
use std::time::{Duration, Instant};

use crate::console::Console;
use crate::daemon::{Daemon, primary};

fn start() -> (Daemon, Console) {
    let daemon = Daemon::start(|t| primary(t, &[("wifi", "path", "up", 1e6 * t, 0.0)]));
    let console = Console::start(daemon.place());
    (daemon, console)
}

fn status(answer: &str) -> &str {
    answer
        .split(' ')
        .nth(1)
        .unwrap_or_else(|| panic!("no answer: {answer}"))
}

/// Reads from a stream until this text has come.
fn until(stream: &mut TcpStream, text: &str) -> String {
    let (mut all, mut block) = (String::new(), [0; 65536]);
    while !all.contains(text) {
        let octets = stream.read(&mut block).unwrap();
        assert_ne!(octets, 0, "it ends: {all}");
        all.push_str(&String::from_utf8_lossy(&block[..octets]));
    }
    all
}

/// A connection on which the stream of data is asked for.
fn listen(console: &Console) -> TcpStream {
    let mut stream = console.connect();
    let head = format!(
        "GET /stream HTTP/1.1\r\nHost: localhost:{}\r\n{}\r\n",
        console.port,
        console.bearer()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

#[test]
fn it_listens_at_loopback_addresses_only() {
    let (_daemon, console) = start();
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|f| std::fs::read_to_string(f).unwrap());
    let port = format!(":{:04X}", console.port);
    let listening = tables
        .iter()
        .flat_map(|table| table.lines())
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let address = fields.get(1)?.strip_suffix(&port)?;
            (fields.get(3) == Some(&"0A")).then_some(address)
        });
    let listening: Vec<&str> = listening.collect();
    assert!(listening.contains(&"0100007F"), "{listening:?}");
    let loopback = ["0100007F", "00000000000000000000000001000000"];
    assert!(
        listening.iter().all(|a| loopback.contains(a)),
        "{listening:?}"
    );
    // Where there is IPv6, the page is there, too.
    if UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() {
        assert_eq!(listening.len(), 2, "{listening:?}");
        TcpStream::connect((Ipv6Addr::LOCALHOST, console.port)).unwrap();
    }
}

#[test]
fn requests_for_other_hosts_are_refused() {
    let (_daemon, console) = start();
    let ask = |host: &str| {
        let answer = console.request(&format!(
            "GET / HTTP/1.1\r\n{host}{}Connection: close\r\n\r\n",
            console.bearer()
        ));
        status(&answer).to_owned()
    };
    let port = console.port;
    for host in ["localhost", "127.0.0.1", "[::1]"] {
        assert_eq!(ask(&format!("Host: {host}:{port}\r\n")), "200", "{host}");
    }
    for host in [
        format!("Host: rebinding.example:{port}\r\n"),
        "Host: localhost\r\n".to_owned(),
        format!("Host: localhost:{}\r\n", port ^ 1),
        format!("Host: 127.0.0.1.nip.example:{port}\r\n"),
        format!("Host: localhost:{port}\r\nHost: localhost:{port}\r\n"),
        "Host:\r\n".to_owned(),
        String::new(),
    ] {
        assert_eq!(ask(&host), "403", "{host}");
    }
}

#[test]
fn only_get_is_answered() {
    let (_daemon, console) = start();
    for method in [
        "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "TRACE", "BREW",
    ] {
        for path in ["/", "/stream"] {
            let answer = console.request(&format!(
                "{method} {path} HTTP/1.1\r\nHost: localhost:{}\r\n{}Origin: http://evil.example\r\n\
                 Content-Length: 0\r\nConnection: close\r\n\r\n",
                console.port,
                console.bearer()
            ));
            assert_eq!(status(&answer), "405", "{method} {path}");
            assert!(answer.contains("allow: GET\r\n"), "{answer}");
        }
    }
}

/// Requests of the page for changes reach the API's socket, which is not there; others do not.
#[test]
fn changes_are_passed_on_for_the_page_alone() {
    let (_daemon, console) = start();
    let own = format!("Origin: http://localhost:{}\r\n", console.port);
    let ask = |line: &str, more: &str, body: &str| {
        console.request(&format!(
            "{line} HTTP/1.1\r\nHost: localhost:{}\r\n{more}Content-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            console.port,
            body.len()
        ))
    };
    const SAME: &str = "Sec-Fetch-Site: same-origin\r\n";
    let bearer = console.bearer();
    for line in ["POST /v1/pairing", "PATCH /v1/links/my%20wifi"] {
        for from in [SAME, &own] {
            let answer = ask(line, &format!("{bearer}{from}"), "{}");
            assert_eq!(status(&answer), "502", "{answer}");
            assert!(
                answer.contains("status.api: there is no such socket"),
                "{answer}"
            );
            assert_eq!(status(&ask(line, from, "{}")), "401");
        }
        for from in [
            "",
            "Sec-Fetch-Site: cross-site\r\n",
            "Sec-Fetch-Site: none\r\n",
            "Origin: http://evil.example\r\n",
            "Origin: null\r\n",
            &format!("{own}Sec-Fetch-Site: same-site\r\n"),
        ] {
            let answer = ask(line, &format!("{bearer}{from}"), "{}");
            assert_eq!(status(&answer), "403", "{from}");
        }
    }
    let mine = format!("{bearer}{SAME}");
    for (line, methods) in [
        ("PUT /v1/policy", "GET"),
        ("DELETE /v1/links/a", "PATCH"),
        ("PATCH /v1/links/a/b", "GET"),
        ("PUT /v1/pairing", "GET, POST, PATCH, DELETE"),
    ] {
        let answer = ask(line, &mine, "{}");
        assert_eq!(status(&answer), "405", "{line}");
        assert!(
            answer.contains(&format!("allow: {methods}\r\n")),
            "{answer}"
        );
    }
    for line in [
        "GET /v1/status",
        "GET /v1/events",
        "GET /v1/links/../status",
    ] {
        assert_eq!(status(&ask(line, &mine, "")), "404", "{line}");
    }
    assert_eq!(status(&ask("GET /v1/links", "", "")), "401");
    let long = "x".repeat(20_000);
    assert_eq!(status(&ask("POST /v1/pairing", &mine, &long)), "400");
}

#[test]
fn with_read_only_no_change_is_passed_on_and_no_control_is_shown() {
    let (daemon, console) = start();
    // An API that this user may change, and that answers nothing.
    let api = UnixListener::bind(daemon.socket.with_extension("api")).unwrap();
    thread::spawn(move || api.incoming().for_each(drop));
    let options = ["--socket", daemon.place(), "--read-only"];
    let view = Console::start_with(&options, &[]);
    for (console, code, may_change) in [(console, "502", true), (view, "405", false)] {
        let shown = until(&mut listen(&console), "may_change");
        let expected = format!("\"may_change\":{may_change}");
        assert!(shown.contains(&expected), "{shown}");
        let answer = console.request(&format!(
            "PATCH /v1/links/a HTTP/1.1\r\nHost: localhost:{}\r\n{}Content-Length: 2\r\n\
             Sec-Fetch-Site: same-origin\r\nConnection: close\r\n\r\n{{}}",
            console.port,
            console.bearer()
        ));
        assert_eq!(status(&answer), code, "{answer}");
    }
}

#[test]
fn data_are_for_those_who_have_the_token() {
    let (_daemon, console) = start();
    let wrong = format!("{:0<32}", &console.token[..31]);
    for more in [
        String::new(),
        "Authorization: Bearer \r\n".to_owned(),
        format!("Authorization: Bearer {}\r\n", "0".repeat(32)),
        format!("Authorization: Bearer {wrong}{wrong}\r\n"),
        format!("Authorization: Basic {}\r\n", console.token),
        format!("Cookie: token={}\r\n", console.token),
        format!("Referer: http://localhost/#{}\r\n", console.token),
    ] {
        let answer = console.get("/stream", &more);
        assert_eq!(status(&answer), "401", "{more}");
        assert!(!answer.contains("wifi"), "{answer}");
    }
    let answer = console.get(&format!("/stream?{}", console.token), "");
    assert_eq!(status(&answer), "401", "it is not taken from addresses");
    // The page itself says nothing of the daemon, nor of the token.
    for path in [
        "/",
        "/main.js",
        "/stream.js",
        "/style.css",
        "/icon.svg",
        "/nowhere",
    ] {
        let answer = console.get(path, "");
        assert!(
            !answer.contains(&console.token) && !answer.contains("wifi"),
            "{path}"
        );
    }
    let mut stream = listen(&console);
    let answer = until(&mut stream, "\"sample\":{");
    assert_eq!(status(&answer), "200");
    assert!(answer.contains("\"name\":\"wifi\""), "{answer}");
}

#[test]
fn another_start_has_another_token() {
    let (daemon, console) = start();
    let other = Console::start(daemon.place());
    assert_ne!(console.token, other.token);
    let answer = other.get("/stream", &console.bearer());
    assert_eq!(status(&answer), "401");
}

#[test]
fn every_answer_has_the_headers_and_none_opens_it_to_others() {
    let (_daemon, console) = start();
    let answers = [
        console.get("/", "Origin: http://evil.example\r\n"),
        console.get("/main.js", ""),
        console.get("/nowhere", ""),
        console.get("/stream", "Origin: http://evil.example\r\n"),
        console.request("GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"),
    ];
    for answer in answers {
        let head = answer.split("\r\n\r\n").next().unwrap().to_lowercase();
        for expected in [
            "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self';",
            "frame-ancestors 'none'",
            "x-content-type-options: nosniff",
            "x-frame-options: deny",
            "referrer-policy: no-referrer",
            "cache-control: no-store",
        ] {
            assert!(head.contains(expected), "{expected}\n{head}");
        }
        for forbidden in ["access-control-", "set-cookie"] {
            assert!(!head.contains(forbidden), "{forbidden}\n{head}");
        }
    }
}

#[test]
fn listeners_are_eight_at_most_and_places_become_free() {
    let (_daemon, console) = start();
    let mut streams: Vec<_> = (0..8).map(|_| listen(&console)).collect();
    for stream in &mut streams {
        until(stream, "\"type\":\"history\"");
    }
    let refused = console.get("/stream", &console.bearer());
    assert_eq!(status(&refused), "503");
    drop(streams);
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let mut stream = listen(&console);
        let answer = until(&mut stream, "\r\n\r\n");
        if status(&answer) == "200" {
            break;
        }
        assert!(Instant::now() < deadline, "{answer}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn clients_that_say_nothing_are_dropped_and_delay_nobody_for_ever() {
    let (_daemon, console) = start();
    // More than there may be: one place becomes free when the first is dropped.
    let mut silent: Vec<_> = (0..64).map(|_| console.connect()).collect();
    silent[0].write_all(b"GET / HTTP/1.1\r\nHost: loc").unwrap();
    let began = Instant::now();
    let answer = console.get("/", "");
    assert_eq!(status(&answer), "200");
    assert!(
        began.elapsed() < Duration::from_secs(60),
        "{:?}",
        began.elapsed()
    );
    for stream in &mut silent {
        // It ends, with an answer or without.
        let mut rest = Vec::new();
        let end = stream.read_to_end(&mut rest);
        assert!(end.is_ok(), "{end:?}");
    }
}

/// Clients that send many requests and read no answer.
#[test]
fn clients_that_do_not_read_block_nobody() {
    let (_daemon, console) = start();
    let request = format!(
        "GET /views.js HTTP/1.1\r\nHost: localhost:{}\r\n\r\n",
        console.port
    );
    let many = request.repeat(1500);
    let deaf: Vec<_> = (0..64)
        .map(|_| {
            let mut stream = console.connect();
            // The connection may end while this is written.
            let _ = stream.write_all(many.as_bytes());
            stream
        })
        .collect();
    assert_eq!(status(&console.get("/", "")), "200");
    drop(deaf);
}

#[test]
fn long_heads_are_refused() {
    let (_daemon, console) = start();
    let with = |octets| {
        let mut stream = console.connect();
        let head = format!("GET / HTTP/1.1\r\nHost: localhost:{}\r\n", console.port);
        let head = format!("{head}X: {}\r\n\r\n", "x".repeat(octets));
        // The answer may be there before all of this is sent.
        let _ = stream.write_all(head.as_bytes());
        until(&mut stream, "\r\n\r\n")
    };
    assert_eq!(status(&with(8_000)), "200");
    assert_eq!(status(&with(20_000)), "431");
}

/// What a console has been told long ago is not shown as if it were new.
#[test]
fn a_new_page_gets_no_old_answer() {
    let (_daemon, console) = start();
    std::thread::sleep(Duration::from_millis(5500));
    let mut stream = listen(&console);
    let answer = until(&mut stream, "\"sample\":{");
    let t = |kind: &str| {
        let rest = answer.split(&format!("\"type\":\"{kind}\",\"t\":")).nth(1);
        let number = rest.unwrap().split(',').next().unwrap();
        number.parse::<f64>().unwrap()
    };
    assert!(t("frame") > t("history"), "{answer}");
}

/// The daemon is not asked while nobody listens.
#[test]
fn the_daemon_is_asked_while_somebody_listens_and_only_then() {
    let (daemon, console) = start();
    assert_eq!(daemon.asked(), 1, "at the start, whether it is there");
    std::thread::sleep(Duration::from_millis(1500));
    console.get("/", "");
    assert_eq!(daemon.asked(), 1);
    let mut stream = listen(&console);
    until(&mut stream, "\"sample\":{");
    drop(stream);
    // The next line finds out: the daemon is soon asked no more.
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut asked = daemon.asked();
    assert!(asked > 1);
    loop {
        std::thread::sleep(Duration::from_millis(2500));
        match daemon.asked() {
            same if same == asked => break,
            more => asked = more,
        }
        assert!(Instant::now() < deadline, "it is asked for ever");
    }
}
