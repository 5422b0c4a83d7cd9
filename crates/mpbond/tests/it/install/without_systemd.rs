//! `make install` and `make uninstall` by root on a machine without systemd.

use std::collections::BTreeSet;
use std::process::Command;

use mpbond_testing::Need;
use mpbond_testing::namespaces::{is_called_for, play, sh};

use super::{expected, programs, repository};
use crate::machine::{self, Machine};
use crate::person::{answer, type_at};

/// Prints what the shell offers for `mpbond st`.
const BASH: &str = "bash -c '
    . /usr/local/share/bash-completion/completions/mpbond
    complete -p mpbond
    COMP_WORDS=(mpbond st) COMP_CWORD=1
    _mpbond mpbond st mpbond
    printf \"%s\\n\" \"${COMPREPLY[@]}\"'";
const FISH: &str = "fish -c 'complete -C \"mpbond st\"'";
/// Prints the function that completes, which the shell finds by itself.
const ZSH: &str = "zsh -fc '
    autoload -Uz compinit
    compinit -u -D
    autoload +X $_comps[mpbond]
    whence -f $_comps[mpbond]'";

/// Prints every manual page, found by its name.
const PAGES: &str = "cd /usr/local/share/man
    for page in man?/mpbond*; do
        name=${page##*/} section=${page##*.}
        test $(realpath $(man -w $section ${name%.*})) = $PWD/$page || exit
        MANPAGER=cat MANWIDTH=80 man $section ${name%.*} || exit
        echo \"page $page\"
    done";

/// Files in which users are listed, with their copies and locks.
const USERS: [&str; 4] = ["passwd", "group", "shadow", "gshadow"];

#[test]
fn root_installs_and_removes_it_without_systemd_and_is_asked_nothing() {
    if Command::new("man").arg("--version").output().is_err() {
        return Need::Man.is_missing("there is no man");
    }
    if machine::can_be_made() {
        play("-mn", "install::without_systemd::role");
    }
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    machine::prepare();
    let machine = Machine::start("server");
    let runs = |command: &str| {
        let mut terminal = type_at(&machine, command);
        answer(&mut [(&mut terminal, Vec::new())], |_, _| String::new());
        terminal.screen()
    };
    runs("rm -r /run/systemd /usr/local/sbin/systemctl; rm -f /usr/bin/systemd-* /bin/systemctl");
    let programs = programs();
    sh(&format!(
        "mkdir {root}/source-under-test {root}/programs-under-test
         cp -r {repository}/Makefile {repository}/dist {root}/source-under-test
         cp {programs}/mpbond {root}/programs-under-test",
        root = machine.file("root").display(),
        repository = repository().display(),
        programs = programs.path().display(),
    ));
    let make = |target: &str| {
        runs(&format!(
            "make -sC /root/source-under-test DIST=/root/programs-under-test {target}"
        ))
    };
    let before = machine.own_files();
    assert_eq!(make("install"), "");

    let installed = machine.own_files();
    for (file, _) in expected("usr/local", "site-functions") {
        assert!(installed.contains(&file), "{file} is not installed");
    }
    let version = runs("mpbond --version");
    assert_eq!(version, format!("mpbond {}\n", env!("CARGO_PKG_VERSION")));
    let owner = runs("stat -c '%U:%G %a' /etc/mpbond");
    assert_eq!(owner, "mpbond:mpbond 700\n");
    let pages = runs(PAGES);
    for words in [
        "page man1/mpbond-status.1\n",
        "page man5/mpbond-proxy.toml.5\n",
    ] {
        assert!(pages.contains(words), "{words} is not in\n{pages}");
    }
    for (shell, command) in [("bash", BASH), ("fish", FISH), ("zsh", ZSH)] {
        if machine.file(&format!("usr/bin/{shell}")).exists() {
            let offered = runs(command);
            assert!(offered.contains("status"), "{shell}: {offered}");
        } else {
            eprintln!("completions of {shell} are not checked: it is not installed");
        }
    }

    // What its user makes stays; everything else goes, twice if need be.
    runs("mpbond id");
    runs("echo 'listen = \"0.0.0.0:4433\"' >/etc/mpbond/proxy.toml");
    let removed = make("uninstall");
    assert!(removed.contains("/etc/mpbond"), "{removed}");
    make("uninstall");
    let is_of_users = |path: &str| {
        let name = path.strip_prefix("etc/").unwrap_or(path);
        let name = name.trim_end_matches(['-', '+']);
        USERS.contains(&name) || name == ".pwd.lock"
    };
    let after = machine.own_files();
    let left: BTreeSet<&str> = after.difference(&before).map(String::as_str).collect();
    let left: Vec<&str> = left.into_iter().filter(|path| !is_of_users(path)).collect();
    assert_eq!(left, ["etc/mpbond/identity.pem", "etc/mpbond/proxy.toml"]);
    let folders = sh(&format!(
        "cd {}/server/up && find . -type d -name \"*mpbond*\" | sort",
        machine::FOLDER
    ));
    assert_eq!(folders, "./etc/mpbond\n");
}
