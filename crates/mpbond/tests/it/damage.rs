//! Files beside the identity that are damaged, of another user, or cannot be written: exit codes of
//! daemons, and findings of the doctor.

use std::fs::Permissions;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::Path;

use mpbond::status::Status;
use mpbond_net::{DeviceId, Identity};
use mpbond_testing::{Need, Outcome, Program, free_address};

use super::command_line::primary_toml;

const MPBOND: Program = Program::new(env!("CARGO_BIN_EXE_mpbond"));

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The units have `RestartPreventExitStatus=2`.
#[test]
fn a_daemon_whose_key_or_account_is_damaged_ends_with_code_2() {
    let folder = tempfile::tempdir().unwrap();
    let primary = primary_toml(folder.path(), free_address(), DeviceId::from_bytes([1; 32]));
    let helper = folder.path().join("helper.toml");
    let config = "identity = \"me.pem\"\nstatus_socket = \"me.sock\"\nlisten = \"127.0.0.1:0\"\n\
                  proxies = \"127.0.0.1:9\"\nmax_bytes_per_month = \"1 MB\"\n";
    std::fs::write(&helper, config).unwrap();
    let (key, usage, budget) = (
        folder.path().join("me.pem"),
        folder.path().join("me.usage"),
        folder.path().join("me.budget"),
    );
    Identity::load_or_create(&key).unwrap();
    let pem = std::fs::read(&key).unwrap();
    let cut = &pem[..pem.len() / 6];
    for (role, config, file, content, problem) in [
        (
            "primary",
            &primary,
            &usage,
            &b""[..],
            "me.usage: it is empty",
        ),
        (
            "primary",
            &primary,
            &usage,
            b"\xff\xfe",
            "me.usage: it is no text; remove it",
        ),
        ("helper", &helper, &budget, b"nonsense", "me.budget: "),
        (
            "primary",
            &primary,
            &key,
            b"",
            "me.pem: no certificate found",
        ),
        (
            "helper",
            &helper,
            &key,
            cut,
            "(the file is cut: a section has no end); restore it",
        ),
    ] {
        let before = std::fs::read(file).ok();
        std::fs::write(file, content).unwrap();
        let outcome = MPBOND.run(&[role, "--config", text(config)]);
        assert_eq!(outcome.code, 2, "{outcome:?}");
        let line = outcome.stderr.lines().last().unwrap();
        assert!(line.contains(problem), "{line}");
        match before {
            Some(before) => std::fs::write(file, before).unwrap(),
            None => std::fs::remove_file(file).unwrap(),
        }
    }
}

/// Also a daemon with one role more: nothing of it runs.
#[test]
fn a_daemon_beside_another_one_of_its_role_ends_with_code_2() {
    let folder = tempfile::tempdir().unwrap();
    let keys = "listen = \"127.0.0.1:0\"\nproxies = \"127.0.0.1:9\"\n";
    let helper = folder.path().join("helper.toml");
    let place = "identity = \"me.pem\"\nstatus_socket = \"me.sock\"\n";
    std::fs::write(&helper, format!("{place}{keys}")).unwrap();
    let device = folder.path().join("device.toml");
    let of_proxy = "[proxy]\nstatus_socket = \"proxy.sock\"\nlisten = \"127.0.0.1:0\"\n";
    let config =
        format!("identity = \"me.pem\"\n{of_proxy}[helper]\nstatus_socket = \"me.sock\"\n{keys}");
    std::fs::write(&device, config).unwrap();
    let socket = folder.path().join("me.sock");
    daemon(&socket, &Status::default());
    for (command, config) in [("helper", &helper), ("up", &device)] {
        let outcome = MPBOND.run(&[command, "--config", text(config)]);
        assert_eq!(outcome.code, 2, "{outcome:?}");
        let line = outcome.stderr.lines().last().unwrap();
        let problem = "me.sock: another daemon answers there: stop it, or name another place";
        assert!(line.contains(problem), "{line}");
        assert!(socket.exists() && !folder.path().join("proxy.sock").exists());
    }
}

#[test]
fn doctor_fails_for_a_line_of_tokens_that_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("proxy.toml");
    let config = "identity = \"me.pem\"\nstatus_socket = \"me.sock\"\nlisten = \"127.0.0.1:0\"\n";
    std::fs::write(&file, config).unwrap();
    let doctor = || {
        MPBOND
            .run(&["doctor", "proxy", "--config", text(&file)])
            .stdout
    };
    assert!(!doctor().contains("me.enrol"), "{}", doctor());
    std::fs::write(folder.path().join("me.enrol"), "# tokens\nnonsense\n").unwrap();
    let said = doctor();
    let problem = "me.enrol:2: no hash of a token: repair or remove this line";
    assert!(said.contains(problem), "{said}");
}

#[test]
fn doctor_fails_for_files_that_the_owner_of_their_folder_cannot_read() {
    const OTHER: u32 = 65_534;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("proxy.toml");
    std::fs::write(&file, "identity = \"me.pem\"\nlisten = \"127.0.0.1:0\"\n").unwrap();
    Identity::load_or_create(folder.path().join("me.pem")).unwrap();
    if chown(folder.path(), Some(OTHER), Some(OTHER)).is_err() {
        return Need::Root.is_missing("only root gives files to others");
    }
    let doctor = || {
        MPBOND
            .run(&["doctor", "proxy", "--config", text(&file)])
            .stdout
    };
    let said = doctor();
    assert!(said.contains("to user 65534, who cannot read it"), "{said}");
    assert!(said.contains("chown --reference="), "{said}");
    // The same in the present folder.
    let mut command = MPBOND.command(["doctor", "proxy", "--config", "proxy.toml"]);
    let outcome = Outcome::from(command.current_dir(folder.path()).output().unwrap());
    let told = "chown --reference=. me.pem";
    assert!(outcome.stdout.contains(told), "{}", outcome.stdout);
    // Tokens that the group of the folder may read are read by its owner, who belongs to it.
    let tokens = folder.path().join("me.enrol");
    std::fs::write(&tokens, "").unwrap();
    let mode = |mode| std::fs::set_permissions(&tokens, Permissions::from_mode(mode)).unwrap();
    let owner = "me.enrol belongs to user";
    mode(0o640);
    assert!(doctor().contains(owner), "{}", doctor());
    chown(&tokens, None, Some(OTHER)).unwrap();
    assert!(!doctor().contains(owner), "{}", doctor());
    mode(0o600);
    assert!(doctor().contains(owner), "{}", doctor());
    std::fs::remove_file(tokens).unwrap();
    chown(folder.path().join("me.pem"), Some(OTHER), Some(OTHER)).unwrap();
    assert!(!doctor().contains("who cannot read it"), "{}", doctor());
}

/// A status socket that answers this status.
fn daemon(socket: &Path, status: &Status) {
    let listener = UnixListener::bind(socket).unwrap();
    let answer = serde_json::to_vec(status).unwrap();
    std::thread::spawn(move || {
        for asker in listener.incoming() {
            let mut asker = asker.unwrap();
            let _ = asker.read_to_end(&mut Vec::new());
            let _ = asker.write_all(&answer);
        }
    });
}

#[test]
fn doctor_and_status_tell_an_account_that_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("helper.toml");
    let config = "identity = \"me.pem\"\nstatus_socket = \"me.sock\"\nlisten = \"127.0.0.1:0\"\n\
                  proxies = \"127.0.0.1:9\"\n";
    std::fs::write(&file, config).unwrap();
    let problem = "me.budget cannot be written (No space left on device)";
    let status = Status {
        role: "helper".to_owned(),
        account_problem: Some(problem.to_owned()),
        ..Status::default()
    };
    let socket = folder.path().join("me.sock");
    daemon(&socket, &status);
    let outcome = MPBOND.run(&["doctor", "helper", "--config", text(&file)]);
    assert_eq!(outcome.code, 1);
    assert!(outcome.stdout.contains(problem), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("free space"), "{}", outcome.stdout);
    let told = MPBOND.ok(&["status", "--socket", text(&socket)]);
    assert!(told.contains(&format!("note: {problem}")), "{told}");
}

/// Step 5 of docs/quickstart.md leaves a primary.toml, which `mpbond up` does not read.
#[test]
fn doctor_checks_the_file_of_the_daemon_that_runs_beside_an_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let old = primary_toml(folder.path(), free_address(), DeviceId::from_bytes([1; 32]));
    let device = folder.path().join("device.toml");
    let section = std::fs::read_to_string(&old)
        .unwrap()
        .replace("[proxy]", "[primary.proxy]");
    let section = section.replace("[[path]]", "[[primary.path]]");
    let section = section.replace("[http]", "[primary.http]");
    let keys = "identity = \"me.pem\"\nstatus_socket = \"me.sock\"\n";
    let section = section.replace(keys, "identity = \"me.pem\"\n[primary]\n");
    std::fs::write(&device, section).unwrap();
    let run = |args: &[&str]| {
        let mut command = MPBOND.command(args);
        command.env("CONFIGURATION_DIRECTORY", folder.path());
        command.env("RUNTIME_DIRECTORY", folder.path());
        Outcome::from(command.output().unwrap()).stdout
    };
    let said = run(&["doctor", "primary"]);
    assert!(said.contains("me.sock"), "{said}");
    let status = Status {
        role: "primary".to_owned(),
        config_file: Some(text(&device).to_owned()),
        ..Status::default()
    };
    daemon(&folder.path().join("primary.sock"), &status);
    let said = run(&["doctor", "primary"]);
    assert!(
        said.contains("primary.sock") && !said.contains("me.sock"),
        "{said}"
    );
    assert!(!said.contains("which is checked"), "{said}");
    // Of a file that is named, another one runs.
    std::fs::write(
        &old,
        std::fs::read_to_string(&old)
            .unwrap()
            .replace("me.sock", "primary.sock"),
    )
    .unwrap();
    let said = run(&["doctor", "primary", "--config", text(&old)]);
    let told = format!(
        "the daemon that runs has {}, and not {}, which is checked",
        device.display(),
        old.display()
    );
    assert!(said.contains(&told), "{said}");
    assert!(!said.contains("has changed since"), "{said}");
}
