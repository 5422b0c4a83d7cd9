//! `experiments/run` continues results, and puts those of other files aside.

use std::path::Path;
use std::process::Command;

use mpbond_testing::write_script;

/// Writes a record, and adds a line to the file of results.
const PROGRAM: &str = r#"#!/bin/sh
if [ "$2" = run ]; then
    echo '{"repetition":0}' >>"$7"
    echo '{}' >"$5"
fi
"#;

const EXPERIMENT: &str = r#"name = "t"
# It isn't "unused.csv" that it needs.
link = [{ down = { profile = "recorded links/rate.csv" }, up = { profile = 'up.csv' } }]
"#;

#[test]
fn results_are_put_aside_where_a_file_that_the_experiment_names_has_changed() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/run");
    for name in ["experiments/recorded links", "bin"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    let write = |name: &str, text: &str| {
        std::fs::write(root.join("experiments").join(name), text).unwrap();
    };
    write("run", &std::fs::read_to_string(run).unwrap());
    write("t.toml", EXPERIMENT);
    for name in ["recorded links/rate.csv", "up.csv", "unused.csv"] {
        write(name, "0 1\n");
    }
    for program in ["mpbond", "mpbond-lab"] {
        write_script(root.join("bin").join(program), PROGRAM);
    }
    // Results that continue, and those put aside, after another call.
    let after_a_call = || {
        let output = Command::new("bash")
            .arg(root.join("experiments/run"))
            .env("MPBOND", root.join("bin/mpbond"))
            .env("OUT", root.join("out"))
            .env("JOBS", "1")
            .env_remove("QUICK")
            .env_remove("BUDGET")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let lines = |name: &str| {
            let text = std::fs::read_to_string(root.join("out").join(name));
            text.unwrap_or_default().lines().count()
        };
        (lines("t.jsonl"), lines("t.jsonl.old"))
    };
    assert_eq!(after_a_call(), (1, 0));
    assert_eq!(after_a_call(), (2, 0));
    write("recorded links/rate.csv", "0 2\n");
    assert_eq!(after_a_call(), (1, 2));
    write("unused.csv", "0 2\n");
    assert_eq!(after_a_call(), (2, 2));
    write("up.csv", "0 2\n");
    assert_eq!(after_a_call(), (1, 2));
}
