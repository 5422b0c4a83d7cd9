//! `mpbond doctor` on one machine: its clock, and the roles that are checked.

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use mpbond_net::Identity;
use mpbond_testing::namespaces::{is_called_for, play, sh};
use mpbond_testing::{Outcome, free_address};

const DAY: Duration = Duration::from_secs(24 * 3600);

fn doctor(program: &Path, folder: &Path, args: &[&str]) -> Outcome {
    let mut command = Command::new(program);
    command.arg("doctor").args(args);
    command
        .env("CONFIGURATION_DIRECTORY", folder)
        .env("RUNTIME_DIRECTORY", folder);
    command.output().unwrap().into()
}

/// A folder with configurations of a proxy and of a helper.
fn two_roles() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| std::fs::write(folder.path().join(name), text).unwrap();
    let listen = free_address();
    write("proxy.toml", format!("listen = \"{listen}\"\n"));
    let other = free_address();
    write(
        "helper.toml",
        format!("listen = \"{other}\"\nproxies = \"{listen}\"\n"),
    );
    folder
}

#[test]
fn without_a_role_all_that_have_a_configuration_are_checked() {
    let folder = two_roles();
    let program = Path::new(env!("CARGO_BIN_EXE_mpbond"));
    let all = doctor(program, folder.path(), &[]);
    // The helper reaches no proxy.
    assert_eq!(all.code, 1, "{all:?}");
    for role in ["proxy", "helper"] {
        let heading = format!("{role} ({}/{role}.toml)\n", folder.path().display());
        assert!(all.stdout.contains(&heading), "{all:?}");
    }
    assert!(!all.stdout.contains("primary ("), "{all:?}");
    let file = folder.path().join("proxy.toml");
    let one = doctor(
        program,
        folder.path(),
        &["--config", file.to_str().unwrap()],
    );
    assert!(one.stdout.contains("open files"), "{one:?}");
    assert!(!one.stdout.contains("calls itself"), "{one:?}");
}

/// A script in place of the program that knows Bluetooth, beside `mpbond`.
#[test]
fn the_bluetooth_of_pipes_at_unix_sockets_is_checked_at_both_ends() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let at = |name: &str| folder.path().join(name);
    let program = at("mpbond");
    std::fs::hard_link(env!("CARGO_BIN_EXE_mpbond"), &program).unwrap();
    // Written by another process: one that is open for writing cannot be executed, and a process
    // that forks in another thread has what is open here.
    let script = |text: &str| {
        let write = "printf '#!/bin/sh\\n%s\\n' \"$1\" > \"$2\" && chmod 755 \"$2\"";
        let mut command = Command::new("sh");
        command
            .args(["-c", write, "sh", text])
            .arg(at("mpbond-bluetooth"));
        assert!(command.status().unwrap().success());
    };
    let (socket, id) = (
        at("phone.sock"),
        "EYGTWYB-WWIZNSL-4KBHPXP-SOYIV7T-EFA3AUC-QRIQWSU-XFSNIHN-FOCWDQC",
    );
    let unix = format!("unix:{}", socket.display());
    let proxy = free_address();
    let primary = format!(
        "[proxy]\naddress = \"{proxy}\"\nid = \"{id}\"\n[[helper]]\nname = \"phone\"\n\
         address = \"{unix}\"\nid = \"{id}\"\n"
    );
    std::fs::write(at("primary.toml"), primary).unwrap();
    let helper = format!(
        "listen = [\"{}\", \"{unix}\"]\nproxies = \"{proxy}\"\n",
        free_address()
    );
    std::fs::write(at("helper.toml"), helper).unwrap();
    let of = |role: &str, check: &str| {
        let said = doctor(&program, folder.path(), &[role]).stdout;
        let lines = said.lines().skip_while(|line| !line.contains(check));
        lines
            .take(5)
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect::<Vec<_>>()
    };

    script(
        "[ \"$1 $2 $3 $4\" = 'bluetooth check --json --socket' ] || exit 9\n\
         echo '[{\"verdict\": \"fail\", \"detail\": \"'$5' is not paired\", \"advice\": \"pair it\"}]'",
    );
    let absent = of("primary", "helper phone");
    let line = format!("FAIL helper phone {unix}: there is no such socket");
    assert_eq!(absent.first(), Some(&line), "{absent:?}");
    let listener = UnixListener::bind(&socket).unwrap();
    let found = of("primary", "helper phone");
    let not_paired = format!("FAIL helper phone {} is not paired", socket.display());
    assert_eq!(
        found[0],
        format!("ok helper phone {unix} takes connections")
    );
    assert_eq!(
        &found[1..3],
        [not_paired.as_str(), "-> pair it"],
        "{found:?}"
    );
    let check = format!("pipe {unix}");
    let found = of("helper", &check);
    assert_eq!(
        found[0],
        format!("FAIL {check} {} is not paired", socket.display())
    );

    // One that fails otherwise, and none.
    script("echo 'mpbond: this kernel has no Bluetooth' >&2; exit 1");
    let found = of("helper", &check);
    let reason = "`mpbond bluetooth check`: mpbond: this kernel has no Bluetooth";
    assert_eq!(
        found[0],
        format!("skip {check} Bluetooth: not checked: {reason}")
    );
    drop(listener);
}

/// No process carries this pipe: the helper listens at the primary's socket itself.
#[test]
fn a_helper_is_asked_over_a_pipe_at_a_unix_socket_whether_it_trusts_this_device() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let at = |name: &str| folder.path().join(name);
    let program = Path::new(env!("CARGO_BIN_EXE_mpbond"));
    let id = |name: &str| Identity::load_or_create(at(name)).unwrap().id();
    let (phone, watch, other) = (id("phone.pem"), id("watch.pem"), id("other.pem"));
    let unix = format!("unix:{}", at("phone.sock").display());
    let (proxy, own) = (free_address(), free_address());
    let helper = format!(
        "identity = \"phone.pem\"\nname = \"my phone\"\nlisten = [\"{own}\", \"{unix}\"]\n\
         proxies = \"{proxy}\"\n"
    );
    std::fs::write(at("helper.toml"), helper).unwrap();
    let primary = |expected| {
        let text = format!(
            "identity = \"watch.pem\"\n[proxy]\naddress = \"{proxy}\"\nid = \"{other}\"\n\
             [[helper]]\nname = \"phone\"\naddress = \"{unix}\"\nid = \"{expected}\"\n"
        );
        std::fs::write(at("primary.toml"), text).unwrap();
        doctor(program, folder.path(), &["primary"]).stdout
    };
    let of_helper = |args: &[&str]| {
        let mut command = Command::new(program);
        command.args(args).arg("--config").arg(at("helper.toml"));
        command
    };
    let mut daemon = of_helper(&["helper"]).spawn().unwrap();
    let started = std::time::Instant::now();
    while std::os::unix::net::UnixStream::connect(at("phone.sock")).is_err() {
        assert!(
            started.elapsed().as_secs() < 20,
            "the helper does not listen"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    let stranger = primary(phone);
    assert!(
        of_helper(&["trust", &watch.to_string()])
            .status()
            .unwrap()
            .success()
    );
    let trusted = primary(phone);
    let wrong = primary(other);
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    let has = |said: &str, verdict: &str, words: &str| {
        let mut lines = said.lines().filter(|line| line.contains("helper phone"));
        lines.any(|line| line.starts_with(verdict) && line.contains(words))
    };
    assert!(
        has(&stranger, "FAIL", "does not trust this device"),
        "{stranger}"
    );
    assert!(
        has(&trusted, "ok", "calls itself \"my phone\""),
        "{trusted}"
    );
    assert!(
        trusted.contains("a pipe at a socket has no packets"),
        "{trusted}"
    );
    assert!(has(&wrong, "FAIL", &phone.to_string()), "{wrong}");
}

#[test]
fn a_clock_that_is_ahead_or_behind_is_told() {
    play("-Urnm", "doctor::role");
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    let folder = two_roles();
    let program = folder.path().join("mpbond");
    std::fs::copy(env!("CARGO_BIN_EXE_mpbond"), &program).unwrap();
    // No clock of the hardware.
    sh("mount -t tmpfs none /sys/class");
    let now = SystemTime::now();
    for (built, words) in [
        (now + 3 * DAY, Some("this device's clock is behind")),
        (
            now - 11 * 365 * DAY,
            Some("this device's clock is years ahead"),
        ),
        (now - DAY, None),
    ] {
        // Not to write: a program that is open for that cannot be executed.
        let file = std::fs::File::open(&program).unwrap();
        file.set_modified(built).unwrap();
        let said = doctor(&program, folder.path(), &["proxy"]).stdout;
        let clock = said.lines().find(|line| line.contains("  clock "));
        let clock = clock.unwrap();
        match words {
            Some(words) => assert!(clock.starts_with("warn") && clock.contains(words), "{said}"),
            // As the kernel says.
            None => assert!(
                clock.contains("plausible") || clock.contains("is not synchronised"),
                "{said}"
            ),
        }
    }
    // That of the hardware, in UTC.
    sh("mkdir -p /sys/class/rtc/rtc0
        echo \"0.0 0 0.0\n0\nUTC\" > /tmp/mpbond-adjtime.$$
        if [ -e /etc/adjtime ]; then mount --bind /tmp/mpbond-adjtime.$$ /etc/adjtime; fi
        rm /tmp/mpbond-adjtime.$$");
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    for (hardware, words) in [
        (since + DAY, "behind that of its hardware"),
        (since - DAY, "ahead of that of its hardware"),
    ] {
        let text = format!("{}\n", hardware.as_secs());
        std::fs::write("/sys/class/rtc/rtc0/since_epoch", text).unwrap();
        let said = doctor(&program, folder.path(), &["proxy"]).stdout;
        assert!(said.contains(words), "{said}");
    }
}
