//! `mpbond setup` of a device whose service runs: the service reads its files again, or hands over
//! to a new process. A program in place of systemctl records what it is asked for.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::setup::{Device, Running, WITHIN, waiting};
use mpbond::status_socket::ask;
use mpbond_testing::namespaces::{is_called_for, play, sh};
use mpbond_testing::{Need, Outcome};

#[test]
fn a_service_that_runs_is_reloaded_and_not_restarted() {
    play("-Urnm", "setup_service::role");
}

/// Runs setup, with systemd as it seems; returns the verbs that systemctl got.
fn set_up(device: &Device, tools: &Path, args: &[&str]) -> Vec<String> {
    let log = tools.join("log");
    std::fs::write(&log, "").unwrap();
    let path = std::env::var("PATH").unwrap();
    let mut command: Command = device.command(&[&["setup"], args].concat());
    command.env("PATH", format!("{}:{path}", tools.display()));
    let done = Outcome::from(command.output().unwrap());
    assert_eq!(done.code, 0, "{done:?}");
    let text = std::fs::read_to_string(&log).unwrap();
    let verbs = text.lines().filter_map(|line| line.split(' ').nth(1));
    verbs
        .filter(|verb| *verb != "is-active")
        .map(str::to_owned)
        .collect()
}

fn start(device: &Device, role: &str) -> Running {
    let daemon = device.command(&[role]).stderr(Stdio::null()).spawn();
    let daemon = Running(daemon.unwrap());
    let deadline = Instant::now() + WITHIN;
    while ask(&device.folder().join(format!("{role}.sock"))).is_err() {
        assert!(Instant::now() < deadline, "{role} does not start");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    daemon
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    if !Path::new("/etc/systemd/system").exists() {
        return Need::Systemd.is_missing("there is no /etc/systemd/system");
    }
    let tools = tempfile::tempdir().unwrap();
    let tools = tools.path();
    let systemctl = format!("#!/bin/sh\necho \"$@\" >>{}/log\n", tools.display());
    std::fs::write(tools.join("systemctl"), systemctl).unwrap();
    sh(&format!(
        "chmod 755 {tools}/systemctl
         ip link set lo up
         mount -t tmpfs none /run
         mkdir -p /run/systemd/system
         mkdir {tools}/units
         for role in primary helper proxy; do touch {tools}/units/mpbond-$role.service; done
         mount --bind {tools}/units /etc/systemd/system",
        tools = tools.display()
    ));
    let [server, phone, laptop] = [Device::new(), Device::new(), Device::new()];
    // Nothing runs yet.
    let of_server = ["--role", "proxy", "--server", "127.0.0.1"];
    assert_eq!(set_up(&server, tools, &of_server), ["enable", "restart"]);
    let _proxy = start(&server, "proxy");
    // Nothing has changed.
    assert_eq!(set_up(&server, tools, &of_server), ["enable"]);

    let enrol = server.command(&["proxy", "enrol", "--address", "127.0.0.1"]);
    let token = { enrol }.output().unwrap();
    let token = String::from_utf8(token.stdout).unwrap();
    let of_laptop = ["--link", "lo", "--yes", "--name", "laptop", "--pair"];
    let with = |device: &str| -> Vec<String> {
        let args = of_laptop.iter().chain([&device]);
        args.map(|arg| (*arg).to_owned()).collect()
    };
    let run = |device: &str, more: &[&str]| {
        let args = with(device);
        let args: Vec<&str> = args
            .iter()
            .map(String::as_str)
            .chain(more.to_vec())
            .collect();
        set_up(&laptop, tools, &args)
    };
    assert_eq!(run(token.trim(), &[]), ["enable", "restart"]);
    let primary = start(&laptop, "primary");
    let socket = laptop.folder().join("primary.sock");
    assert_eq!(ask(&socket).unwrap().links.len(), 1);

    // A further device: the process that runs has it at once.
    let (waits, line) = waiting(&phone);
    assert_eq!(run(&line, &[]), ["enable"]);
    let (code, said) = waits.ends();
    assert_eq!(code, Some(0), "{said}");
    let status = ask(&socket).unwrap();
    assert_eq!((status.links.len(), status.process), (2, primary.0.id()));

    // A front needs a new process, which takes over.
    let more = ["proxy", "enrol", "--address", "127.0.0.1"];
    let child = server.command(&more).spawn().unwrap();
    let mut child = child;
    let mut token = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut token).unwrap();
    assert!(child.wait().unwrap().success());
    let verbs = run(token.trim(), &["--transparent", "--replace"]);
    assert_eq!(verbs, ["enable", "reload"]);
}
