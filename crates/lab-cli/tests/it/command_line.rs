//! Command line: help, messages, exit codes.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use mpbond_testing::Program;
use mpbond_testing::command_line::compare;

use crate::programs::LAB;

fn ok(args: &[&str]) -> String {
    LAB.ok(args)
}

fn fails(args: &[&str], code: i32) -> String {
    LAB.fails(args, code)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn wrong_usage_is_code_2() {
    for args in [
        &[][..],
        &["labs"],
        &["lab", "run"],
        &["probe", "--count", "x", "h"],
    ] {
        assert_eq!(LAB.run(args).code, 2, "{args:?}");
    }
}

#[test]
fn help_pages_and_completions_are_as_recorded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots");
    compare(LAB, &folder, &[]);
}

#[test]
fn experiments_are_listed_with_what_is_wrong_with_them() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("broken.toml"), "nonsense").unwrap();
    let list = ok(&["lab", "list", text(folder.path())]);
    assert!(list.contains("broken.toml  (not runnable: "), "{list}");
    let line = fails(&["lab", "list", "/nonexistent"], 2);
    assert!(line.starts_with("cannot list /nonexistent: "), "{line}");
    let line = fails(&["lab", "run", text(&folder.path().join("broken.toml"))], 2);
    assert!(line.contains("broken.toml:1:"), "{line}");
}

/// The completion script of `mpbond` calls this one for `mpbond lab ...`.
#[test]
fn bash_completes_what_was_typed_after_mpbond() {
    let script = format!(
        "{}\nCOMP_WORDS=(mpbond lab run --js) COMP_CWORD=3\n\
         _mpbond_lab mpbond --js run\necho \"${{COMPREPLY[@]}}\"",
        ok(&["completions", "bash"])
    );
    assert_eq!(Program::new("/bin/bash").ok(&["-c", &script]), "--json\n");
}

/// `make demo` builds the lab without measurements.
#[test]
fn a_measurement_that_cannot_run_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    let measurement = "name = \"m\"\ntitle = \"t\"\nmeasure = \"probe\"\n";
    std::fs::write(&file, measurement).unwrap();
    let reason = match cfg!(feature = "analysers") {
        true => "only `mpbond lab run` runs it",
        false => "built without measurements: build all of it with `make release`",
    };
    let commands: &[&str] = match cfg!(feature = "analysers") {
        true => &["simulate"],
        false => &["simulate", "run"],
    };
    for command in commands {
        let line = fails(&["lab", command, text(&file)], 2);
        assert!(line.contains("m.toml:3: "), "{line}");
        assert!(line.ends_with(&format!("{reason}\n")), "{line}");
    }
}

/// A record of one scheme's two transfers, made as the lab makes it.
fn record(seconds: [f64; 2]) -> String {
    let experiment = "name = \"t\"\ntitle = \"a title\"\n\
        [[host]]\nname = \"primary\"\nrole = \"primary\"\n\
        [[host]]\nname = \"proxy\"\nrole = \"proxy\"\naddress = \"203.0.113.1\"\n\
        [[host]]\nname = \"origin\"\nrole = \"origin\"\naddress = \"198.51.100.1\"\n\
        [[link]]\nname = \"ps\"\nfrom = \"primary\"\nto = \"proxy\"\ndown = 8\nup = 8\n\
        [[link]]\nname = \"core\"\nfrom = \"proxy\"\nto = \"origin\"\n\
        [[scheme]]\nname = \"one\"\nscheme = \"single\"\n\
        [[workload]]\nname = \"w\"\ndirection = \"down\"\nbytes = \"1 MB\"\n";
    let transfers = [0, 1].map(|repetition| {
        serde_json::json!({
            "scheme": "single", "name": "one", "workload": "w", "repetition": repetition,
            "direction": "down", "devices": 1, "interception": "none", "congestion": "cubic",
            "bytes": 1_000_000, "seconds": seconds[repetition], "ideal_seconds": 1.0,
            "ratio": seconds[repetition], "sha256_ok": true, "longest_stall_s": 0.0,
            "subflows": [], "cpu_s": {}, "fit": true,
            "lateness_us": {"p50": 1.0, "p99": 2.0, "max": 3.0, "realtime": true},
        })
    });
    serde_json::json!({
        "experiment": "t", "date": "2026-01-01T00:00:00Z", "commit": "c0ffee",
        "kernel": "6.1", "transfers": transfers, "file": experiment,
    })
    .to_string()
}

#[test]
fn an_experiment_is_simulated() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let kernel = "[[scheme]]\nname = \"k\"\nscheme = \"kibbutz\"\npaths = [\"ps\", \"ps2\"]\n";
    let experiment = "name = \"t\"\ntitle = \"a title\"\nclient = \"fetch\"\nseed = 40\n\
        [[host]]\nname = \"primary\"\nrole = \"primary\"\n\
        [[host]]\nname = \"proxy\"\nrole = \"proxy\"\naddress = \"203.0.113.1\"\n\
        [[host]]\nname = \"origin\"\nrole = \"origin\"\naddress = \"198.51.100.1\"\n\
        [[link]]\nname = \"ps\"\nfrom = \"primary\"\nto = \"proxy\"\ndown = 8\nup = 8\n\
        [[link]]\nname = \"ps2\"\nfrom = \"primary\"\nto = \"proxy\"\ndown = 4\nup = 4\n\
        [[link]]\nname = \"core\"\nfrom = \"proxy\"\nto = \"origin\"\n\
        [[workload]]\nname = \"w\"\ndirection = \"down\"\nbytes = \"100 kB\"\n";
    let ours = "[[scheme]]\nname = \"one\"\nscheme = \"single\"\n";
    std::fs::write(file("t.toml"), format!("{experiment}{ours}{kernel}")).unwrap();
    std::fs::write(file("kernel.toml"), format!("{experiment}{kernel}")).unwrap();
    let (whole, record) = (file("t.toml"), file("t.json"));
    let run = |seeds: &str, first: &str, json: &Path| {
        let options = [
            "--seeds",
            seeds,
            "--first-seed",
            first,
            "--json",
            text(json),
        ];
        ok(&[&["lab", "simulate", text(&whole)][..], &options].concat())
    };
    let table = run("2", "7", &record);
    assert!(table.contains("in virtual time, seeds 7 to 8"), "{table}");
    assert!(
        table.contains("left out: scheme \"k\": kibbutz needs"),
        "{table}"
    );
    assert!(table.ends_with("no asserts\n"), "{table}");
    let json = std::fs::read_to_string(&record).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["simulated"]["first_seed"], 7);
    let transfer = &json["transfers"][1];
    assert_eq!(transfer["seed"], 8);
    assert_eq!(transfer.get("lateness_us"), None, "{transfer}");
    assert_eq!(transfer["cpu_s"], serde_json::json!({}));
    // The file's own seed and repetitions.
    let table = ok(&["lab", "simulate", text(&whole)]);
    assert!(table.contains("in virtual time, seed 40"), "{table}");
    // Further seeds are further repetitions; the same ones count once.
    let (more, again) = (file("more.json"), file("again.json"));
    run("3", "9", &more);
    run("1", "8", &again);
    let report = ok(&["lab", "report", text(&record), text(&more), text(&again)]);
    assert!(report.contains("| w | one | 5 | 0 |"), "{report}");
    assert!(report.contains("simulated in virtual time"), "{report}");
    // Never joined with a real run.
    std::fs::write(file("real.json"), {
        let mut real = json.clone();
        real.as_object_mut().unwrap().remove("simulated");
        real.to_string()
    })
    .unwrap();
    let line = fails(
        &["lab", "report", text(&record), text(&file("real.json"))],
        2,
    );
    assert!(line.contains("simulated"), "{line}");
    let line = fails(&["lab", "simulate", text(&file("kernel.toml"))], 2);
    assert!(
        line.contains("nothing can be simulated: scheme \"k\""),
        "{line}"
    );
    let list = ok(&["lab", "list", text(folder.path())]);
    assert!(list.contains("simulated"), "{list}");
    let of = |name: &str| list.lines().find(|l| l.contains(name)).unwrap().to_owned();
    assert!(of("t.toml").contains("  part"), "{list}");
    assert!(of("kernel.toml").contains("  no"), "{list}");
}

#[test]
fn records_and_reports_that_cannot_be_written_are_one_line_with_the_files_name() {
    let folder = tempfile::tempdir().unwrap();
    let (saved, experiment) = (folder.path().join("t.json"), folder.path().join("t.toml"));
    let json = record([1.0, 2.0]);
    std::fs::write(&saved, &json).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    std::fs::write(&experiment, json["file"].as_str().unwrap()).unwrap();
    for args in [
        ["lab", "report", text(&saved), "--html"],
        ["lab", "report", text(&saved), "--markdown"],
    ] {
        let line = fails(&[&args[..], &["/dev/full"]].concat(), 1);
        let reason = "/dev/full: No space left on device";
        assert!(line.contains(reason), "{args:?}: {line}");
        assert_eq!(line.lines().count(), 1, "{args:?}: {line}");
    }
    // What was measured is printed all the same.
    for output in ["--json", "--html"] {
        let outcome = LAB.run(&["lab", "simulate", text(&experiment), output, "/dev/full"]);
        let line = "mpbond-lab: cannot write /dev/full: No space left on device (os error 28)\n";
        assert_eq!((outcome.code, &*outcome.stderr), (1, line), "{outcome:?}");
        assert!(outcome.stdout.contains("no asserts"), "{outcome:?}");
    }
}

/// The record is there then.
#[test]
fn results_that_cannot_be_printed_are_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let (experiment, saved) = (folder.path().join("t.toml"), folder.path().join("t.json"));
    let json: serde_json::Value = serde_json::from_str(&record([1.0, 2.0])).unwrap();
    std::fs::write(&experiment, json["file"].as_str().unwrap()).unwrap();
    let survey = "lab survey --settings 1 --seeds 2 --devices 2 --start joined --direction down \
                  --transfer 64KiB --scheme min-rtt --json";
    let survey: Vec<_> = survey.split_whitespace().chain([text(&saved)]).collect();
    let simulate = ["lab", "simulate", text(&experiment), "--json", text(&saved)];
    for args in [&simulate[..], &survey[..]] {
        let full = std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let output = LAB.command(args).stdout(full).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        let last = said.lines().last().unwrap();
        let problem = "cannot write to standard output: No space left on device";
        assert!(
            last.contains(problem) && !said.contains("panicked"),
            "{said}"
        );
        assert!(std::fs::metadata(&saved).unwrap().len() > 100, "{args:?}");
        std::fs::remove_file(&saved).unwrap();
    }
}

/// To root without its capabilities permissions apply as to others.
#[test]
fn outputs_that_may_not_be_written_are_told_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let readable = std::fs::Permissions::from_mode(0o555);
    std::fs::set_permissions(folder.path(), readable).unwrap();
    let page = folder.path().join("t.html");
    let args = ["lab", "simulate", "t.toml", "--html", text(&page)];
    let mut command = match nix::unistd::geteuid().is_root() {
        true => {
            let mut command = std::process::Command::new("setpriv");
            let program = LAB.command(args);
            command.args(["--bounding-set=-all", "--inh-caps=-all"]);
            command.arg(program.get_program()).args(args);
            command
        }
        false => LAB.command(args),
    };
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    let problem = format!("t.html: {}: Permission denied", folder.path().display());
    assert!(said.contains(&problem), "{said}");
}

/// A run may take hours: where its results cannot be stored it does not begin.
#[test]
fn outputs_without_a_folder_and_missing_experiments_are_told_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (page, is_folder) = (folder.path().join("none/t.html"), text(folder.path()));
    let no_experiment = folder.path().join("t.toml");
    for command in ["run", "simulate"] {
        let args = ["lab", command, text(&no_experiment), "--html"];
        let line = fails(&[&args[..], &[text(&page)]].concat(), 2);
        assert!(line.contains("/none: make it first"), "{line}");
        let line = fails(&[&args[..], &[is_folder]].concat(), 2);
        assert!(line.contains("it is a folder"), "{line}");
        let line = fails(&args[..3], 2);
        assert!(line.contains("t.toml: No such file"), "{line}");
    }
    let line = fails(&["lab", "survey", "--json", text(&page)], 2);
    assert!(line.contains("/none: make it first"), "{line}");
    let resume = ["lab", "run", text(&no_experiment), "--resume", is_folder];
    let line = fails(&resume, 2);
    assert!(line.contains("it is a folder"), "{line}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn records_become_a_report() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    std::fs::write(file("a.json"), record([1.5, 1.7])).unwrap();
    std::fs::write(file("b.json"), record([1.6, 1.8])).unwrap();
    let (a, b) = (file("a.json"), file("b.json"));
    let table = ok(&["lab", "report", text(&a), text(&b)]);
    assert!(table.contains("| w | one | 4 | 0 | 0 | 1.650 |"), "{table}");
    let (html, markdown, svg) = (file("r.html"), file("r.md"), file("svg"));
    ok(&[
        "lab",
        "report",
        text(&a),
        "--html",
        text(&html),
        "--markdown",
        text(&markdown),
        "--svg",
        text(&svg),
    ]);
    let page = std::fs::read_to_string(&html).unwrap();
    assert!(page.contains("<svg") && page.contains("1.600"), "{page}");
    assert!(std::fs::read_to_string(markdown).unwrap().contains("1.600"));
    let picture = std::fs::read_to_string(svg.join("t-time-1.svg")).unwrap();
    assert!(picture.starts_with("<svg"), "{picture}");

    std::fs::write(&b, "{\n  \"experiment\": 1\n}").unwrap();
    let line = fails(&["lab", "report", text(&a), text(&b)], 2);
    assert!(line.contains("b.json:2: not a record"), "{line}");
    let line = fails(&["lab", "report", text(&file("none.json"))], 2);
    assert!(line.starts_with("cannot read "), "{line}");
}
