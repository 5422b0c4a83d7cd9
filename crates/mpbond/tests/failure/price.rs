//! Price of a helper, with real daemons: it is woken for what is worth its joules.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use crate::api::{ask_with, got};
use crate::class_names::socks5;
use crate::daemons::{Bond, Ways, is_pattern, origin, until};

const RADIOS: &str = "[[link]]\nname = \"own\"\nradio = \"lte-2012\"\n\
                      [[link]]\nname = \"helper\"\nradio = \"lte-2012\"\n";

/// Bytes that a link has brought.
fn brought(bond: &Bond, link: &str) -> u64 {
    let status = bond.status("primary").unwrap();
    let path = status.paths.iter().find(|path| path.name == link);
    path.map_or(0, |path| path.bytes_in)
}

/// The bytes of a download that the helper brought.
fn download(bond: &Bond, origin: SocketAddr, size: u32) -> u64 {
    let before = brought(bond, "helper");
    let mut stream = bond.connect(origin).unwrap();
    stream.write_all(&size.to_be_bytes()).unwrap();
    let mut all = vec![0; size as usize];
    stream.read_exact(&mut all).unwrap();
    assert!(is_pattern(0, &all), "no byte is lost");
    brought(bond, "helper") - before
}

fn put(bond: &Bond, mode: &str) {
    let policy = format!("[policy]\nmode = \"{mode}\"\n{RADIOS}");
    let answer = ask_with(bond, "PUT /v1/policy", "If-Match: *\r\n", &policy);
    assert_eq!(answer.code, 200, "{answer:?}");
}

#[test]
fn a_saver_leaves_the_helper_asleep_once_the_rates_are_known_and_fastest_uses_it() {
    let origin = origin();
    // On loopback, the scheduler by default would leave all to the own path.
    let bond = Bond::new(Ways::Both, "", "scheduler = \"round-robin\"");
    let _daemons = ["proxy", "helper", "primary"].map(|role| bond.start(role));
    bond.joined(2);
    put(&bond, "saver");
    // Nothing is known of the links yet: the helper is used until it is measured.
    let size = 8_000_000;
    assert!(download(&bond, origin, size) > 0);
    let energy = |link: &str| got(&bond, &format!("GET /v1/links/{link}"), "")["energy"].clone();
    until("the rates are known", || {
        download(&bond, origin, size);
        !energy("helper")["woken_for"].is_null()
    });
    assert!(energy("helper")["woken_for"]["download_bytes"].is_null());
    // Own link and helper are about as fast, so that the helper costs joules for any transfer.
    // In three attempts: a daemon that gets no processor for 250 ms is silent, and it takes over.
    let is_unused = |_| {
        let bytes = download(&bond, origin, size);
        eprintln!("the helper brought {bytes}");
        bytes == 0
    };
    assert!((0..3).any(is_unused));
    let (own, helper) = (energy("own"), energy("helper"));
    // Promotions and tails of each, and activity of the own radio.
    let joules = |energy: &serde_json::Value| energy["joules"].as_f64().unwrap();
    assert!(
        joules(&own) > 12.0 && joules(&helper) > 12.0,
        "{own} {helper}"
    );
    assert!(own["woken_for"].is_null() && own["radio"] == "lte-2012");

    put(&bond, "fastest");
    assert_eq!(energy("helper")["woken_for"]["download_bytes"], 0);
    assert!(download(&bond, origin, size) > u64::from(size) / 4);
    // Without radios there is no price.
    let answer = ask_with(&bond, "PUT /v1/policy", "If-Match: *\r\n", "");
    assert_eq!(answer.code, 200, "{answer:?}");
    assert!(energy("helper").is_null());
    assert!(download(&bond, origin, size) > u64::from(size) / 4);
}

/// The joules of each link's last day.
fn today(bond: &Bond, link: &str) -> f64 {
    let energy = got(bond, &format!("GET /v1/links/{link}"), "")["energy"].clone();
    let days = energy["days"].as_array().unwrap();
    days.last().unwrap()["joules"].as_f64().unwrap()
}

#[test]
fn joules_of_a_day_are_kept_over_a_restart() {
    let origin = origin();
    let bond = Bond::new(Ways::Own, "policy = \"policy.toml\"", "");
    let policy = "[policy]\n[[link]]\nname = \"own\"\nradio = \"lte-2012\"\n";
    std::fs::write(bond.file("policy.toml"), policy).unwrap();
    let _proxy = bond.start("proxy");
    let mut primary = bond.start("primary");
    bond.joined(1);
    assert!(today(&bond, "own") < 1e-9);
    download(&bond, origin, 8_000_000);
    // A promotion and a tail, 12.77 J; only one, unless midnight comes between.
    until("the transfer is looked at", || today(&bond, "own") > 12.0);
    let before = today(&bond, "own");
    primary.stop();
    let _primary = bond.start("primary");
    bond.joined(1);
    let after = today(&bond, "own");
    assert!(after >= before && after < before + 12.0, "{before} {after}");
    let energy = got(&bond, "GET /v1/links/own", "")["energy"].clone();
    assert!(
        energy["joules"].as_f64().unwrap() < before,
        "since the start"
    );
}

/// Joules that the radio of a link has spent since the start.
fn joules(bond: &Bond, link: &str) -> f64 {
    let energy = got(bond, &format!("GET /v1/links/{link}"), "")["energy"].clone();
    energy["joules"].as_f64().unwrap()
}

#[test]
fn a_message_after_a_pause_is_counted_though_it_moved_before_the_first_look() {
    let origin = origin();
    let bond = Bond::new(Ways::Own, "", "");
    let _daemons = ["proxy", "primary"].map(|role| bond.start(role));
    bond.joined(1);
    let policy = "[[link]]\nname = \"own\"\nradio = \"lte-2012\"\n";
    let answer = ask_with(&bond, "PUT /v1/policy", "If-Match: *\r\n", policy);
    assert_eq!(answer.code, 200, "{answer:?}");
    download(&bond, origin, 8_000_000);
    until("the transfer is looked at", || joules(&bond, "own") > 12.0);
    // The session is looked at for 5 s after its last bytes, the model's radio sleeps after 11.6 s.
    thread::sleep(Duration::from_millis(12_500));
    let before = joules(&bond, "own");
    download(&bond, origin, 100);
    // A promotion and a tail, 12.77 J.
    until("its joules are counted", || {
        joules(&bond, "own") > before + 12.0
    });
}

#[test]
fn background_waits_for_a_radio_that_is_awake_or_for_the_end_of_its_delay() {
    let (usual, late) = (origin(), origin());
    let bond = Bond::new(Ways::Own, "", "");
    let _daemons = ["proxy", "primary"].map(|role| bond.start(role));
    bond.joined(1);
    // This radio sleeps 0.21 s after its last packet.
    let apply = |mode: &str, delay: &str| {
        let policy = format!(
            "[policy]\nmode = \"{mode}\"\n[[link]]\nname = \"own\"\nradio = \"wifi-s4\"\n\
             [[rule]]\nname = \"backups\"\nport = {}\n\
             set = {{ class = \"background\", delay = \"{delay}\" }}\n",
            late.port()
        );
        let answer = ask_with(&bond, "PUT /v1/policy", "If-Match: *\r\n", &policy);
        assert_eq!(answer.code, 200, "{answer:?}");
        thread::sleep(Duration::from_secs(1));
    };
    let connect = || {
        let begun = Instant::now();
        bond.connect(late).unwrap();
        begun.elapsed()
    };

    apply("balanced", "2min");
    thread::scope(|scope| {
        let waiting = scope.spawn(connect);
        let listed = || got(&bond, "GET /v1/status", "")["waiting"][0].clone();
        until("it is listed", || listed()["waits_for"] == "radio");
        assert_eq!(listed()["rule"], "backups");
        thread::sleep(Duration::from_secs(1));
        assert!(!waiting.is_finished(), "nothing has woken the radio");
        // What is not background does not wait.
        download(&bond, usual, 4_000_000);
        let waited = waiting.join().unwrap();
        assert!(waited < Duration::from_mins(1), "{waited:?}");
    });

    apply("saver", "2s");
    let waited = connect();
    assert!(waited >= Duration::from_secs(2), "{waited:?}");

    // By its user name, as long as that is less than its rule says.
    apply("balanced", "2min");
    let begun = Instant::now();
    socks5(&bond, "me,class=background,deadline=2s", late).unwrap();
    let waited = begun.elapsed();
    let expected = Duration::from_secs(2)..Duration::from_mins(1);
    assert!(expected.contains(&waited), "{waited:?}");

    apply("fastest", "2min");
    let waited = connect();
    assert!(waited < Duration::from_mins(1), "{waited:?}");
}
