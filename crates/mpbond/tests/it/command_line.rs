//! Command line: help, messages, exit codes.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use mpbond::status::{RuleStatus, SessionStatus, Status, SubflowStatus};
use mpbond_net::tls::{TlsStream, Trust};
use mpbond_net::{DeviceId, Identity};
use mpbond_testing::command_line::compare;
use mpbond_testing::{Outcome, Program};

const MPBOND: Program = Program::new(env!("CARGO_BIN_EXE_mpbond"));

fn ok(args: &[&str]) -> String {
    MPBOND.ok(args)
}

fn fails(args: &[&str], code: i32) -> String {
    MPBOND.fails(args, code)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn the_top_level_help_describes_the_program() {
    let help = ok(&["--help"]);
    for word in [
        "primary",
        "helper",
        "proxy",
        "Examples:",
        "Exit codes:",
        "doctor",
    ] {
        assert!(help.contains(word), "{word} is missing in\n{help}");
    }
    assert!(
        help.starts_with("Makes a person's devices share their networks"),
        "{help}"
    );
    assert_eq!(MPBOND.run(&[]).code, 2, "no command: help, but not success");
}

#[test]
fn every_help_has_an_example_and_fits_a_terminal() {
    for command in [
        &["primary"][..],
        &["helper"],
        &["proxy"],
        &["status"],
        &["doctor"],
        &["id"],
        &["pair"],
        &["setup"],
        &["proxy", "enrol"],
        &["trust"],
        &["untrust"],
        &["completions"],
        &["man"],
    ] {
        for flag in ["-h", "--help"] {
            let args: Vec<&str> = command.iter().copied().chain([flag]).collect();
            let help = ok(&args);
            assert!(help.contains("Example"), "{args:?}:\n{help}");
            let example = help.split("A complete").nth(1).unwrap_or_default();
            for line in example.lines() {
                assert!(line.chars().count() < 80, "{args:?}: too wide: {line}");
            }
            for line in help.lines() {
                assert!(line.chars().count() <= 100, "{args:?}: too wide: {line}");
            }
        }
    }
    for (role, key) in [
        ("primary", "on_proxy_loss = "),
        ("helper", "max_bytes_per_month = "),
        ("proxy", "[destinations]"),
    ] {
        let help = ok(&[role, "--help"]);
        assert!(help.contains(key), "no complete configuration:\n{help}");
    }
}

#[test]
fn wrong_usage_is_code_2() {
    for args in [
        &["promary"][..],
        &["proxy", "--serve", "nowhere"],
        &["trust"],
        &["trust", "not-an-id"],
        &["status", "router"],
        &["doctor", "router"],
    ] {
        assert_eq!(MPBOND.run(args).code, 2, "{args:?}");
    }
    let line = fails(&["--log", "a=b=c", "man", "/nonexistent"], 2);
    assert!(
        line.starts_with("--log \"a=b=c\" is no log filter"),
        "{line}"
    );
}

#[test]
fn wrong_configurations_are_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("primary.toml");
    std::fs::write(&file, "scheduler = \"mpbond\"\n[proxi]\n").unwrap();
    for command in ["primary", "doctor"] {
        let mut args = vec![command];
        if command == "doctor" {
            args.push("primary");
        }
        args.extend(["--config", text(&file)]);
        let line = fails(&args, 2);
        let expected = format!("{}:2: proxi: unknown key; allowed here are ", text(&file));
        assert!(line.starts_with(&expected), "{line}");
    }
    let line = fails(&["proxy", "--config", "/nonexistent/proxy.toml"], 2);
    assert!(
        line.starts_with("/nonexistent/proxy.toml: cannot be read: "),
        "{line}"
    );

    std::fs::write(&file, "proxies = \"203.0.113.1:4433\"\n").unwrap();
    let fine = ok(&["helper", "--check", "--config", text(&file)]);
    assert_eq!(fine, format!("{}: fine\n", text(&file)));
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        1,
        "a check leaves nothing"
    );
}

#[test]
fn a_policy_is_checked_alone_and_with_its_primary() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.toml");
    let id = Identity::load_or_create(folder.path().join("proxy.pem")).unwrap();
    let proxy = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
    let config = primary_toml(folder.path(), proxy, id.id());
    let check = ["policy", "check", text(&file)];
    let with = [&check[..], &["--config", text(&config)]].concat();
    let line = fails(&check, 2);
    let expected = format!(
        "{}: the policy cannot be read: there is no such file\n",
        text(&file)
    );
    assert_eq!(line, expected);
    std::fs::write(&file, "[policy]\nzone = \"UTC\"\n").unwrap();
    assert_eq!(ok(&with), format!("{}: fine, 0 rules\n", text(&file)));
    let alone = ok(&check);
    assert!(
        alone.contains("(names of links and the kill switch not"),
        "{alone}"
    );
    let weak = "[[link]]\nname = \"wifi\"\nweak_below = \"-60 dBm\"\n";
    for (mode, is_without) in [("balanced", true), ("fastest", true), ("saver", false)] {
        std::fs::write(&file, format!("[policy]\nmode = \"{mode}\"\n{weak}")).unwrap();
        let without = format!(
            "{}: weak_below of link \"wifi\" has no effect in mode {mode}, but only in saver\n",
            text(&file)
        );
        let said = ok(&check);
        assert_eq!(said.ends_with(&without), is_without, "{said}");
        assert_eq!(said.lines().count(), 1 + usize::from(is_without), "{said}");
    }
    for (policy, expected) in [
        ("[polic]\n", "1: polic: unknown key; allowed here are "),
        (
            "[policy]\nmode = \"saver\"\n",
            "2: policy.mode: it has no effect: ",
        ),
        (
            "[policy]\nzone = \"Mars/Base\"\n",
            "2: policy.zone: the time zone \"Mars/Base\" is",
        ),
    ] {
        std::fs::write(&file, policy).unwrap();
        let expected = format!("{}:{expected}", text(&file));
        // The primary does not start with it, either.
        let toml = std::fs::read_to_string(&config).unwrap();
        let toml = format!("policy = \"policy.toml\"\n{toml}");
        let named = folder.path().join("with-policy.toml");
        std::fs::write(&named, toml).unwrap();
        for args in [&check[..], &with, &["primary", "--config", text(&named)]] {
            let line = fails(args, 2);
            assert!(line.starts_with(&expected), "{line}");
        }
    }
}

#[test]
fn ids_and_trust() {
    let folder = tempfile::tempdir().unwrap();
    let identity = folder.path().join("identity.pem");
    let at = ["--identity", text(&identity)];
    let missing = fails(&["id", at[0], at[1]], 2);
    assert!(
        missing.contains("with `--create` one is made there"),
        "{missing}"
    );
    assert!(!identity.exists());
    let id = ok(&["id", "--create", at[0], at[1]]);
    assert_eq!(ok(&["id", at[0], at[1]]), id, "made once");
    let own: DeviceId = id.trim().parse().unwrap();
    assert_eq!(own, Identity::load(&identity).unwrap().id());
    let mode = std::fs::metadata(&identity).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let friend = DeviceId::from_bytes([9; 32]).to_string();
    let said = ok(&["trust", &friend, "--name", "my laptop", at[0], at[1]]);
    assert!(said.contains("is trusted now"), "{said}");
    let said = ok(&["trust", &friend, at[0], at[1]]);
    assert!(said.contains("was trusted already"), "{said}");
    let list = ok(&["trust", "--list", at[0], at[1]]);
    assert_eq!(list, format!("{friend}  my laptop\n"));

    // By the configuration that names the identity, for any role.
    let config = folder.path().join("proxy.toml");
    std::fs::write(
        &config,
        format!("identity = \"identity.pem\"\ntrust = [\"{own}\"]\n"),
    )
    .unwrap();
    let list = ok(&["trust", "--list", "--config", text(&config)]);
    assert_eq!(
        list,
        format!("{own}  (in the configuration)\n{friend}  my laptop\n")
    );
    let line = fails(&["untrust", &own.to_string(), "--config", text(&config)], 1);
    assert!(line.contains("is still trusted by `trust` in "), "{line}");

    // By the beginning of its id, or by its name, if no other device has them.
    let other = DeviceId::from_bytes([8; 32]).to_string();
    ok(&["trust", &other, "--name", "my laptop", at[0], at[1]]);
    let line = fails(&["untrust", "my laptop", at[0], at[1]], 2);
    assert!(
        line.contains("may be any of ") && line.contains(&friend),
        "{line}"
    );
    let said = ok(&["trust", &other[..7], "--name", "old laptop", at[0], at[1]]);
    assert!(said.starts_with(&other), "{said}");
    ok(&["untrust", "old laptop", at[0], at[1]]);
    for unknown in ["old laptop", &friend[..3], "ZZZZZZZ"] {
        let line = fails(&["untrust", unknown, at[0], at[1]], 2);
        assert!(line.contains("is no trusted device's name"), "{line}");
    }
    let line = fails(
        &["untrust", &own.to_string()[..7], "--config", text(&config)],
        1,
    );
    assert!(line.contains("is still trusted by `trust` in "), "{line}");

    ok(&["untrust", &friend[..7].to_lowercase(), at[0], at[1]]);
    assert_eq!(ok(&["trust", "--list", at[0], at[1]]), "");
    let line = fails(&["untrust", &friend, at[0], at[1]], 1);
    assert!(line.contains("is not in "), "{line}");
}

#[test]
fn status_of_a_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("primary.sock");
    let line = fails(&["status", "--socket", text(&socket)], 1);
    assert!(
        line.contains("there is no such socket: is the daemon running?"),
        "{line}"
    );

    let status = Status {
        role: "primary".into(),
        version: "9.9.9".into(),
        uptime_s: 75.0,
        sessions: vec![SessionStatus {
            id: "00ff".into(),
            state: "up".into(),
            subflows: vec![SubflowStatus {
                name: "lte".into(),
                state: "up".into(),
                bytes_in: 10_000_000,
                ..SubflowStatus::default()
            }],
            ..SessionStatus::default()
        }],
        rules: vec![
            RuleStatus {
                name: "calls".into(),
                line: 12,
                flows_total: 34,
            },
            RuleStatus::default(),
        ],
        default_flows_total: Some(56),
        notes: vec!["QUIC is refused".into()],
        ..Status::default()
    };
    let listener = UnixListener::bind(&socket).unwrap();
    let answer = serde_json::to_vec(&status).unwrap();
    std::thread::spawn(move || {
        for asker in listener.incoming() {
            let mut asker = asker.unwrap();
            let mut request = Vec::new();
            asker.read_to_end(&mut request).unwrap();
            assert_eq!(request, b"");
            let _ = asker.write_all(&answer);
        }
    });
    let told = ok(&["status", "--socket", text(&socket)]);
    for part in [
        "primary 9.9.9  up 1 min 15 s",
        "note: QUIC is refused",
        "rules: 1 of 2 have selected connections, the default 56\n",
        "  calls    12     34\n",
        "  lte   up     10.0 MB",
    ] {
        assert!(told.contains(part), "{part} is missing in\n{told}");
    }
    // Into a pipe without colours, unless they are asked for, and never where they are not wanted.
    let coloured = |variables: &[&str]| {
        let mut command = MPBOND.command(["status", "--socket", text(&socket)]);
        command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
        command.envs(variables.iter().map(|name| (name, "1")));
        let outcome = Outcome::from(command.output().unwrap());
        outcome.stdout.contains("\u{1b}[")
    };
    assert!(!coloured(&[]));
    assert!(coloured(&["CLICOLOR_FORCE"]));
    assert!(!coloured(&["CLICOLOR_FORCE", "NO_COLOR"]));
    let json = ok(&["status", "--json", "--socket", text(&socket)]);
    assert_eq!(serde_json::from_str::<Status>(&json).unwrap(), status);
}

#[test]
fn a_reload_without_a_daemon_and_with_a_wrong_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("proxy.toml");
    std::fs::write(&file, "status_socket = \"me.sock\"\n").unwrap();
    let args = ["reload", "proxy", "--config", text(&file)];
    let line = fails(&args, 1);
    let socket = folder.path().join("me.sock");
    let said = format!("no daemon answers here (tried {})", socket.display());
    assert!(line.contains(&said), "{line}");
    std::fs::write(&file, "workers = 0\n").unwrap();
    let line = fails(&args, 2);
    assert!(line.contains("proxy.toml:1: workers: "), "{line}");
    // A file is one daemon's.
    let outcome = MPBOND.run(&["reload", "--config", text(&file)]);
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
}

pub(super) fn primary_toml(folder: &Path, proxy: SocketAddr, id: DeviceId) -> std::path::PathBuf {
    let file = folder.join("primary.toml");
    let config = format!(
        "identity = \"me.pem\"\nstatus_socket = \"me.sock\"\n[proxy]\naddress = \"{proxy}\"\n\
         id = \"{id}\"\n[[path]]\nname = \"lte\"\n[http]\nlisten = \"127.0.0.1:0\"\n"
    );
    std::fs::write(&file, config).unwrap();
    file
}

fn doctor(file: &Path) -> (i32, serde_json::Value) {
    let outcome = MPBOND.run(&["doctor", "primary", "--json", "--config", text(file)]);
    let json = serde_json::from_str(&outcome.stdout);
    (
        outcome.code,
        json.unwrap_or_else(|e| panic!("{e}: {}", outcome.stderr)),
    )
}

fn failures(findings: &serde_json::Value) -> Vec<String> {
    let all = findings.as_array().unwrap().iter();
    all.filter(|f| f["verdict"] == "fail")
        .map(|f| format!("{}: {} -> {}", f["check"], f["detail"], f["advice"]))
        .collect()
}

#[test]
fn doctor_finds_a_proxy_that_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    // Refused, not silent.
    let nobody = mpbond_testing::free_address();
    let file = primary_toml(folder.path(), nobody, DeviceId::from_bytes([1; 32]));
    let (code, findings) = doctor(&file);
    let failed = failures(&findings);
    assert_eq!((code, failed.len()), (1, 1), "{findings:#}");
    assert!(failed[0].contains("nothing listens on port"), "{failed:?}");
    assert!(
        !folder.path().join("me.pem").exists(),
        "the doctor changes nothing"
    );
}

struct Answer(bool);

impl Trust for Answer {
    fn trusts(&self, _: &DeviceId) -> bool {
        self.0
    }
}

/// A proxy's front door: shakes hands, and closes when the caller does.
fn front_door(identity: Identity, trusts: bool) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            loop {
                let (tcp, _) = listener.accept().await.unwrap();
                let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(5);
                let trust = Arc::new(Answer(trusts));
                if let Ok(mut tls) = TlsStream::accept(tcp, &identity, trust, deadline).await {
                    tls.close();
                    let _ = std::future::poll_fn(|cx| tls.poll_flush(cx)).await;
                }
            }
        });
    });
    address
}

#[test]
fn doctor_distinguishes_trust_distrust_and_another_identity() {
    let folder = tempfile::tempdir().unwrap();
    let own = Identity::load_or_create(folder.path().join("me.pem"))
        .unwrap()
        .id();
    let proxy = Identity::generate().unwrap();

    let file = primary_toml(folder.path(), front_door(proxy.clone(), true), proxy.id());
    let (code, findings) = doctor(&file);
    assert_eq!((code, failures(&findings)), (0, vec![]), "{findings:#}");
    assert!(
        findings
            .to_string()
            .contains("the proxy trusts this device"),
        "{findings:#}"
    );

    let file = primary_toml(folder.path(), front_door(proxy.clone(), false), proxy.id());
    let (code, findings) = doctor(&file);
    let failed = failures(&findings);
    assert_eq!((code, failed.len()), (1, 1), "{findings:#}");
    assert!(
        failed[0].contains(&format!("mpbond trust {own}")),
        "{failed:?}"
    );

    let somebody = DeviceId::from_bytes([1; 32]);
    let file = primary_toml(folder.path(), front_door(proxy.clone(), true), somebody);
    let (code, findings) = doctor(&file);
    let failed = failures(&findings);
    assert_eq!((code, failed.len()), (1, 1), "{findings:#}");
    assert!(failed[0].contains(&proxy.id().to_string()), "{failed:?}");
}

#[test]
fn doctor_checks_every_role_that_has_a_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let mut command = MPBOND.command(args);
        command.env("CONFIGURATION_DIRECTORY", folder.path());
        Outcome::from(command.output().unwrap())
    };
    let none = run(&["doctor"]);
    assert_eq!(none.code, 2);
    assert!(
        none.stderr.contains("no configuration in "),
        "{}",
        none.stderr
    );

    let keys = |name: &str| format!("identity = \"{name}.pem\"\nstatus_socket = \"{name}.sock\"\n");
    let address = mpbond_testing::free_address();
    let helper = keys("helper")
        + "proxies = \"127.0.0.1:9\"\nlisten = \"127.0.0.1:0\"\nmax_bytes_per_month = \"1 MB\"\n";
    std::fs::write(folder.path().join("helper.toml"), helper).unwrap();
    let proxy = keys("proxy") + &format!("listen = \"{address}\"\n");
    std::fs::write(folder.path().join("proxy.toml"), proxy).unwrap();
    // What the helper's last run has written.
    let month = Command::new("date")
        .args(["-u", "+%Y-%m"])
        .output()
        .unwrap();
    let month = String::from_utf8(month.stdout).unwrap();
    let account = format!("month = \"{}\"\nused_bytes = 1000000\n", month.trim());
    std::fs::write(folder.path().join("helper.budget"), account).unwrap();
    let both = run(&["doctor"]);
    for heading in ["helper", "proxy"] {
        let file = folder.path().join(format!("{heading}.toml"));
        let heading = format!("{heading} ({})\n", file.display());
        assert!(both.stdout.contains(&heading), "{}", both.stdout);
    }
    assert!(both.stdout.contains("the budget of "), "{}", both.stdout);
    let json = run(&["doctor", "--json"]).stdout;
    let findings: serde_json::Value = serde_json::from_str(&json).unwrap();
    let of = |role: &str| {
        let all = findings.as_array().unwrap();
        all.iter().filter(|f| f["role"] == role).count()
    };
    assert!(
        of("helper") > 0 && of("proxy") > 0 && of("primary") == 0,
        "{json}"
    );
}

/// Subcommands that are listed and belong to `mpbond-console`, `mpbond-bluetooth` and `mpbond-lab`.
const OF_OTHERS: [&str; 12] = [
    "console",
    "top",
    "bluetooth",
    "lab",
    "link",
    "probe",
    "probe-server",
    "traffic",
    "capture",
    "trace",
    "energy",
    "cpulog",
];

#[test]
fn help_pages_and_completions_are_as_recorded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots");
    compare(MPBOND, &folder, &OF_OTHERS);
}

/// Subcommands are handed to `mpbond-lab`: none is installed, one in PATH, one beside `mpbond`. All
/// are links, since a program that has just been written may not be run by a process that forks in
/// another thread.
#[test]
fn subcommands_of_other_programs_are_handed_on() {
    let temporary = env!("CARGO_TARGET_TMPDIR");
    let [own, elsewhere] = [0, 1].map(|_| tempfile::tempdir_in(temporary).unwrap());
    let program = own.path().join("mpbond");
    std::fs::hard_link(env!("CARGO_BIN_EXE_mpbond"), &program).unwrap();
    let run = |args: &[&str]| {
        let output = Command::new(&program)
            .args(args)
            .env("PATH", elsewhere.path())
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].map(|s| String::from_utf8(s).unwrap());
        (output.status.code().unwrap(), said.concat())
    };
    let (code, line) = run(&["lab", "run", "x.toml"]);
    assert_eq!((code, line.lines().count()), (2, 1), "{line}");
    let expected = format!(
        "mpbond: `mpbond lab` is part of mpbond-lab, which is neither in {} nor in PATH: ",
        text(own.path())
    );
    assert!(line.starts_with(&expected), "{line}");

    let (code, line) = run(&["top"]);
    assert_eq!(code, 2, "{line}");
    assert!(
        line.contains("`mpbond top` is part of mpbond-console, "),
        "{line}"
    );

    // Every argument as it was typed.
    let args = ["--log", "debug", "trace", "query", "a  b", "--help"];
    symlink("/bin/echo", elsewhere.path().join("mpbond-lab")).unwrap();
    assert_eq!(run(&args), (0, args.join(" ") + "\n"));
    // That beside it comes first, and the exit code is its own.
    symlink("/bin/false", own.path().join("mpbond-lab")).unwrap();
    assert_eq!(run(&args).0, 1);
}

/// Words that bash offers after `words`, with a `mpbond-lab` whose script offers `--of-the-lab`.
fn completed(words: &[&str], with_lab: bool) -> String {
    let lab = "mpbond-lab() { echo '_mpbond_lab() { COMPREPLY=(--of-the-lab \"$1\"); }'; }";
    let script = format!(
        "{}\n{}\nCOMP_WORDS=({}) COMP_CWORD={}\n\
         _mpbond_or_other mpbond \"${{COMP_WORDS[COMP_CWORD]}}\" \"\"\necho \"${{COMPREPLY[@]}}\"",
        ok(&["completions", "bash"]),
        if with_lab { lab } else { "" },
        words.join(" "),
        words.len() - 1
    );
    let bash = Program::new("/bin/bash");
    let mut command = bash.command(["-c", &script]);
    command.env("PATH", "/nonexistent");
    let outcome = Outcome::from(command.output().unwrap());
    assert_eq!((outcome.code, &*outcome.stderr), (0, ""), "{words:?}");
    outcome.stdout.trim().to_owned()
}

#[test]
fn bash_completes_subcommands_of_the_lab_by_its_script() {
    let of_lab = |words: &[&str]| completed(words, true);
    assert_eq!(of_lab(&["mpbond", "lab", "\"\""]), "--of-the-lab mpbond");
    assert_eq!(
        of_lab(&["mpbond", "trace", "query", "--"]),
        "--of-the-lab mpbond"
    );
    // Without it, and for subcommands of this program: its own script.
    assert_eq!(completed(&["mpbond", "lab", "--he"], false), "--help");
    assert_eq!(of_lab(&["mpbond", "lin"]), "link");
    assert!(of_lab(&["mpbond", "primary", "--"]).contains("--config"));
}

#[test]
fn the_first_help_lists_subcommands_of_other_programs() {
    let help = ok(&["--help"]);
    for name in OF_OTHERS {
        let start = format!("  {name} ");
        let listed = help.lines().any(|l| l.starts_with(&start));
        assert!(listed, "{name} is missing in\n{help}");
    }
}
