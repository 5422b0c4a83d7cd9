//! The command line of `mpbond link`: a program behind an emulated link, access to services of this
//! machine, and complete removal.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use mpbond_testing::Need;

use crate::programs::LAB;

/// Number of bytes that the server sends, and rate and delay of the link.
const BYTES: usize = 250_000;
const MBPS: f64 = 20.0;
const DELAY: Duration = Duration::from_millis(30);

fn link(args: &[&str], program: &str) -> Option<Output> {
    let output = LAB
        .command(["link"])
        .args(args)
        .args(["--", "bash", "-c", program])
        .output()
        .unwrap();
    // 3: the machine allows no namespaces, or lacks nft.
    if output.status.code() == Some(3) {
        Need::Namespaces.is_missing(String::from_utf8_lossy(&output.stderr));
        return None;
    }
    Some(output)
}

#[test]
fn a_program_reaches_this_machine_through_the_link_alone() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in server.incoming() {
            let mut stream = stream.unwrap();
            let mut question = [0; 4];
            stream.read_exact(&mut question).unwrap();
            stream.write_all(&[b'x'; BYTES]).unwrap();
        }
    });
    let logs = tempfile::tempdir().unwrap();
    let (log, pcap) = (logs.path().join("log.csv"), logs.path().join("pcap"));
    let rate = format!("{MBPS} Mbit/s");
    let args = [
        "--down",
        &rate,
        "--up",
        "unlimited",
        "--delay",
        "30ms",
        "--forward",
        &format!("7=127.0.0.1:{port}"),
        "--packet-log",
        log.to_str().unwrap(),
        "--pcap",
        pcap.to_str().unwrap(),
    ];
    for gateway_port in [port, 7] {
        let program = format!(
            "exec 3<>/dev/tcp/$MPBOND_GATEWAY/{gateway_port}; printf ask! >&3; wc -c <&3; exit 9"
        );
        let started = Instant::now();
        let Some(output) = link(&args, &program) else {
            return;
        };
        let took = started.elapsed();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(9), "{errors}");
        let got = String::from_utf8_lossy(&output.stdout);
        assert_eq!(got.trim(), BYTES.to_string(), "{errors}");
        // Two round trips, and the bytes at the link's rate.
        let sending = Duration::from_secs_f64(BYTES as f64 * 8.0 / (MBPS * 1e6));
        assert!(took >= DELAY * 4 + sending, "{took:?}");
        check_logs(&log, &pcap.join("link.pcap"));
    }
}

fn check_logs(log: &Path, pcap: &Path) {
    let log = std::fs::read_to_string(log).unwrap();
    let bytes: usize = log
        .lines()
        .filter(|line| line.contains(",link,down,") && line.ends_with(','))
        .map(|line| line.split(',').nth(4).unwrap().parse::<usize>().unwrap())
        .sum();
    assert!(bytes > BYTES, "{bytes}");
    assert!(std::fs::metadata(pcap).unwrap().len() > bytes as u64);
}

#[test]
fn a_connection_to_a_closed_port_is_reset() {
    let port = mpbond_testing::free_address().port();
    let program = format!("exec 3<>/dev/tcp/$MPBOND_GATEWAY/{port} && cat <&3");
    let Some(output) = link(&["--down", "8", "--up", "8"], &program) else {
        return;
    };
    assert!(!output.status.success());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        errors.contains("reset") || errors.contains("refused"),
        "{errors}"
    );
}

#[test]
fn usage_errors_are_reported_before_the_program_runs() {
    let missing = "{ mahimahi = \"/there/is/none\" }";
    for (down, radio, words) in [
        ("fast", "lte-2012", "no such file"),
        (missing, "lte-2012", "--down: /there/is/none:"),
        ("8", "lte-1812", "--radio: no radio profile"),
    ] {
        let output = link(&["--down", down, "--up", "8", "--radio", radio], "echo ran").unwrap();
        assert_eq!(output.status.code(), Some(2), "{down}");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains(words), "{down}: {errors}");
        assert!(output.stdout.is_empty());
    }
}
