//! Installing: `make install`, `make uninstall`, and the Debian package.

mod without_systemd;

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use mpbond_testing::Need;

fn repository() -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    path.canonicalize().unwrap()
}

/// Runs a command that has to succeed, and returns its output.
fn output(command: &mut Command) -> String {
    let done = command
        .output()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{command:?}: {said}");
    String::from_utf8(done.stdout).unwrap()
}

/// Path and mode of every file below a folder.
fn files(folder: &Path) -> BTreeSet<(String, u32)> {
    fn collect(at: &Path, root: &Path, all: &mut BTreeSet<(String, u32)>) {
        for entry in std::fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, root, all);
            } else {
                let mode = path.metadata().unwrap().permissions().mode() & 0o777;
                let name = path.strip_prefix(root).unwrap().display().to_string();
                all.insert((name, mode));
            }
        }
    }
    let mut all = BTreeSet::new();
    collect(folder, folder, &mut all);
    all
}

/// A folder with the program as it is packed: without symbols.
fn programs() -> tempfile::TempDir {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    output(
        Command::new("strip")
            .arg("-o")
            .arg(folder.path().join("mpbond"))
            .arg(env!("CARGO_BIN_EXE_mpbond")),
    );
    folder
}

/// Files that belong to an installation below `prefix`, except manual pages of commands. `zsh` is
/// its folder of completions.
fn expected(prefix: &str, zsh: &str) -> Vec<(String, u32)> {
    let mut all = vec![
        (format!("{prefix}/bin/mpbond"), 0o755),
        ("usr/lib/sysusers.d/mpbond.conf".to_owned(), 0o644),
        ("usr/lib/tmpfiles.d/mpbond.conf".to_owned(), 0o644),
        (
            format!("{prefix}/share/bash-completion/completions/mpbond"),
            0o644,
        ),
        (format!("{prefix}/share/mpbond/mpbond-link-facts"), 0o755),
        (format!("{prefix}/share/zsh/{zsh}/_mpbond"), 0o644),
        (
            "usr/share/fish/vendor_completions.d/mpbond.fish".to_owned(),
            0o644,
        ),
    ];
    for role in ["primary", "helper", "proxy", "up", "on", "kill-switch"] {
        let unit = format!("{prefix}/lib/systemd/system/mpbond-{role}.service");
        all.push((unit, 0o644));
    }
    all
}

/// Checks that every program that a unit starts is there.
fn units_start_what_is_installed(root: &Path, prefix: &str) {
    let folder = root.join(prefix).join("lib/systemd/system");
    let mut started = 0;
    for unit in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(unit.unwrap().path()).unwrap();
        for line in text.lines().filter(|l| l.starts_with("Exec")) {
            let command = line.split_once('=').unwrap().1;
            let program = command.split(' ').next().unwrap();
            assert!(root.join(&program[1..]).is_file(), "{line}");
            started += 1;
        }
    }
    assert!(started >= 4);
}

/// Checks that what packaged documents for users name is in the package, but for source and
/// experiments.
fn links_lead_to_files(folder: &Path) {
    let documents = std::fs::read_dir(folder.join("docs")).unwrap();
    let mut links = 0;
    for document in documents.map(|entry| entry.unwrap().path()) {
        if document.is_dir() {
            continue;
        }
        let text = std::fs::read_to_string(&document).unwrap();
        let targets = text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split([')', '#']).next());
        for target in targets.filter(|target| !target.is_empty() && !target.contains(':')) {
            let outside = ["../crates/", "../experiments/", "../fuzz/", "../ARCH"];
            if outside.iter().any(|left_out| target.starts_with(left_out)) {
                continue;
            }
            let file = document.parent().unwrap().join(target);
            assert!(file.exists(), "{}: {target}", document.display());
            links += 1;
        }
    }
    assert!(links > 50, "{links}");
}

#[test]
fn make_uninstall_removes_everything_that_make_install_installs() {
    let programs = programs();
    let root = tempfile::tempdir().unwrap();
    let make = |target: &str| {
        let mut make = Command::new("make");
        make.args(["-s", "-C"]).arg(repository()).arg(target);
        make.arg(format!("DIST={}", programs.path().display()));
        make.arg(format!("DESTDIR={}", root.path().display()));
        // Of a make that this test runs under.
        make.env_remove("MAKEFLAGS").env_remove("MFLAGS");
        output(&mut make)
    };
    make("install");
    let installed = files(root.path());
    let pages = |(name, _): &&(String, u32)| name.starts_with("usr/local/share/man/");
    let (pages, others): (Vec<_>, Vec<_>) = installed.iter().partition(pages);
    let mut wanted = expected("usr/local", "site-functions");
    wanted.sort();
    assert_eq!(others.into_iter().cloned().collect::<Vec<_>>(), wanted);
    for page in ["man1/mpbond-primary.1", "man5/mpbond-primary.toml.5"] {
        let page = (format!("usr/local/share/man/{page}"), 0o644);
        assert!(pages.contains(&&page), "{page:?} is not in {pages:#?}");
    }
    units_start_what_is_installed(root.path(), "usr/local");

    make("uninstall");
    assert_eq!(files(root.path()), BTreeSet::new());
}

/// In place of the program, one that writes nothing: its pages are not the matter here.
#[test]
fn the_unit_of_bluetooth_comes_and_goes_with_its_program() {
    let programs = programs();
    std::os::unix::fs::symlink("/bin/true", programs.path().join("mpbond-bluetooth")).unwrap();
    let root = tempfile::tempdir().unwrap();
    let run = |script: &str| {
        let mut run = Command::new(repository().join("dist").join(script));
        run.arg(programs.path()).env("DESTDIR", root.path());
        output(&mut run)
    };
    run("install");
    let unit = root
        .path()
        .join("usr/local/lib/systemd/system/mpbond-bluetooth@.service");
    assert!(unit.is_file());
    units_start_what_is_installed(root.path(), "usr/local");
    run("uninstall");
    assert_eq!(files(root.path()), BTreeSet::new());
}

#[test]
fn two_packages_of_the_same_program_are_alike_and_complete() {
    if Command::new("dpkg-deb").arg("--version").output().is_err() {
        return Need::Dpkg.is_missing("there is no dpkg-deb");
    }
    let programs = programs();
    let architecture = output(Command::new("dpkg").arg("--print-architecture"));
    let build = || {
        let folder = tempfile::tempdir().unwrap();
        let mut build = Command::new(repository().join("dist/deb/build"));
        build.arg(programs.path()).arg(architecture.trim());
        build.arg(folder.path());
        build.env("DEB_COMPRESSION", "none");
        build.env("SOURCE_DATE_EPOCH", "1700000000");
        let file = output(&mut build);
        (PathBuf::from(file.trim()), folder)
    };
    let ((one, _one), (other, _other)) = (build(), build());
    assert!(
        std::fs::read(&one).unwrap() == std::fs::read(other).unwrap(),
        "two packages of the same program differ"
    );

    let root = tempfile::tempdir().unwrap();
    let deb = |option: &str| {
        let mut deb = Command::new("dpkg-deb");
        deb.arg(option).arg(&one);
        deb
    };
    output(deb("-x").arg(root.path()));
    let installed = files(root.path());
    for file in expected("usr", "vendor-completions") {
        assert!(
            installed.contains(&file),
            "{file:?} is not in {installed:#?}"
        );
    }
    for page in ["man1/mpbond.1", "man5/mpbond-proxy.toml.5"] {
        let page = (format!("usr/share/man/{page}.gz"), 0o644);
        assert!(
            installed.contains(&page),
            "{page:?} is not in {installed:#?}"
        );
    }
    units_start_what_is_installed(root.path(), "usr");
    links_lead_to_files(&root.path().join("usr/share/doc/mpbond"));
    let version = output(Command::new(root.path().join("usr/bin/mpbond")).arg("--version"));
    assert_eq!(version, format!("mpbond {}\n", env!("CARGO_PKG_VERSION")));

    let fields = output(&mut deb("-f"));
    for field in [
        "Package: mpbond".to_owned(),
        format!("Version: {}", env!("CARGO_PKG_VERSION")),
        format!("Architecture: {}", architecture.trim()),
    ] {
        assert!(fields.lines().any(|l| l == field), "{field}: {fields}");
    }
    let control = tempfile::tempdir().unwrap();
    output(deb("-e").arg(control.path()));
    for script in ["postinst", "prerm", "postrm"] {
        let script = control.path().join(script);
        output(Command::new("sh").arg("-n").arg(&script));
        let text = std::fs::read_to_string(script).unwrap();
        assert!(!text.contains("@MAKE"), "not filled in: {text}");
    }
    // All members belong to root, whoever builds it.
    let list = output(&mut deb("-c"));
    assert!(list.lines().all(|l| l.contains(" root/root ")), "{list}");
}
