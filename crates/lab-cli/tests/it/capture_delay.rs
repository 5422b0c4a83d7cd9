//! `mpbond capture delay` on a capture that this test takes while `mpbond probe` runs, in
//! namespaces of its own: every method's probes are found.
//!
//! The test that cargo runs has the ignored one play its role there (`mpbond_testing::namespaces`).

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mpbond_testing::namespaces::{is_called_for, play};
use serde_json::Value;
use socket2::{Domain, Protocol, Socket, Type};
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{ServerConfig, ServerConnection, crypto::ring};

use crate::programs::LAB;

const SERVER: &str = "127.0.0.1:7107";
const TLS_SERVER: &str = "127.0.0.1:7108";
const COUNT: usize = 20;

#[test]
fn live_probes_are_found_in_a_capture() {
    play("-Urn", "capture_delay::role");
}

/// Captures the packets of all interfaces with their Ethernet headers until `stop` is set.
fn sniff(stop: Arc<AtomicBool>) -> std::thread::JoinHandle<Vec<u8>> {
    let all = i32::from((libc::ETH_P_ALL as u16).to_be());
    let socket = Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(all))).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(50)))
        .unwrap();
    socket.set_recv_buffer_size(4 << 20).unwrap();
    std::thread::spawn(move || {
        // A classic capture in nanoseconds.
        let mut file = Vec::new();
        for field in [0xa1b2_3c4d_u32, 4 << 16 | 2, 0, 0, 65535, 1] {
            file.extend(field.to_le_bytes());
        }
        let mut packet = vec![0; 65535];
        loop {
            let Ok(bytes) = (&socket).read(&mut packet) else {
                if stop.load(Ordering::Relaxed) {
                    return file;
                }
                continue;
            };
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            let length = bytes as u32;
            for field in [now.as_secs() as u32, now.subsec_nanos(), length, length] {
                file.extend(field.to_le_bytes());
            }
            file.extend(&packet[..bytes]);
        }
    })
}

/// Answers TLS handshakes with a long flight.
fn serve_tls() {
    let certified = rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone(); 12], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind(TLS_SERVER).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut tls = ServerConnection::new(Arc::clone(&config)).unwrap();
            // The client leaves as soon as it has the flight.
            let _ = tls.complete_io(&mut stream.unwrap());
        }
    });
}

/// A child that is killed when the test ends or panics: otherwise it would keep open the pipe
/// that the first process reads.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn mpbond(folder: &Path, args: &[&str]) -> String {
    let output = Command::new(LAB.path())
        .args(args)
        .current_dir(folder)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    let up = Command::new("ip")
        .args(["link", "set", "lo", "up"])
        .status();
    assert!(up.unwrap().success());
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = Command::new(LAB.path())
        .args(["probe-server", "--listen", SERVER])
        .stdout(Stdio::piped())
        .spawn();
    let mut server = Ended(server.unwrap());
    let mut line = String::new();
    let mut out = BufReader::new(server.0.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();

    serve_tls();
    for (method, target) in [
        ("icmp", "127.0.0.1"),
        ("udp", SERVER),
        ("http", SERVER),
        ("syn", SERVER),
        ("tls", TLS_SERVER),
        ("rst", "127.0.0.1:9"),
    ] {
        let stop = Arc::new(AtomicBool::new(false));
        let sniffer = sniff(Arc::clone(&stop));
        let count = COUNT.to_string();
        let args = [
            "probe", target, "--method", method, "-c", &count, "-i", "2ms", "--json",
        ];
        std::fs::write(folder.join("probes.jsonl"), mpbond(folder, &args)).unwrap();
        stop.store(true, Ordering::Relaxed);
        std::fs::write(folder.join("wire.pcap"), sniffer.join().unwrap()).unwrap();

        let args = ["capture", "delay", "wire.pcap", "--probes", "probes.jsonl"];
        let told = mpbond(folder, &args);
        println!("{told}");
        let text = mpbond(folder, &[&args[..], &["--json"]].concat());
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), COUNT + 1, "{method}");
        assert_eq!(lines[COUNT]["found"], COUNT, "{method}: {told}");
        let clock = &lines[COUNT]["wire_clocks"][0];
        assert_eq!(clock["clock"], 0, "{method}: {told}");
        assert!(
            clock["d_n_error_us"].is_f64() && clock["stamps"].is_string(),
            "{clock}"
        );
        for probe in &lines[..COUNT] {
            let us = |key: &str| {
                probe[key]
                    .as_f64()
                    .unwrap_or_else(|| panic!("{key}: {probe}"))
            };
            assert_eq!(probe["stamps"]["wire"]["source"], "capture");
            // Equation 1.
            let delta = us("d_u_us") - us("d_n_us");
            assert!((us("delta_d_us") - delta).abs() < 1e-6, "{probe}");
            // On loopback: the same but for what user space waits for a processor, here and at the
            // sniffer, which has been a quarter of a second.
            assert!(us("d_n_us") > 0.0 && delta.abs() < 5e6, "{probe}");
            assert!(probe["transmissions"]["out"].as_u64().unwrap() >= 1);
        }
    }
}
