//! Snapshots of a program's command line: help texts, manual pages, completions.
//!
//! They are plain files, compared octet by octet. `MPBOND_TEST_UPDATE=1` writes them anew; `git
//! diff` then shows the change for users.

use std::path::Path;

use crate::Program;

/// Environment variable that has snapshots written instead of compared.
const UPDATE: &str = "MPBOND_TEST_UPDATE";

/// Shells whose scripts are only checked for their existence: they have the content of bash's.
const OTHER_SHELLS: [&str; 2] = ["zsh", "fish"];

/// Compares help texts, manual pages and completions of `program` with the files in `folder`.
/// Subcommands in `others` belong to another program.
///
/// # Panics
/// Where they differ, or the program fails.
pub fn compare(program: Program, folder: &Path, others: &[&str]) {
    let mut help = String::new();
    collect_help(program, &mut Vec::new(), others, &mut help);
    let mut texts = vec![
        ("help.txt".to_owned(), help),
        ("man.txt".to_owned(), pages(program)),
    ];
    let script = program.ok(&["completions", "bash"]);
    texts.push(("completions.bash".to_owned(), script));
    for shell in OTHER_SHELLS {
        assert!(program.ok(&["completions", shell]).contains("mpbond"));
    }
    for (name, text) in texts {
        let text = text.replace(env!("CARGO_PKG_VERSION"), "VERSION");
        compare_one(&folder.join(name), &text);
    }
}

fn compare_one(file: &Path, text: &str) {
    if std::env::var_os(UPDATE).is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        return std::fs::write(file, text).unwrap();
    }
    let expected = std::fs::read_to_string(file).unwrap_or_default();
    let numbered = expected.lines().zip(text.lines()).zip(1..);
    let differs = numbered.into_iter().find(|((old, new), _)| old != new);
    let place = differs.map_or("at its end".to_owned(), |((old, new), number)| {
        format!("in line {number}:\n- {old}\n+ {new}")
    });
    assert!(
        expected == text,
        "{} differs {place}\n{UPDATE}=1 writes it anew",
        file.display()
    );
}

/// The help of a subcommand and those below it.
fn collect_help(program: Program, path: &mut Vec<String>, others: &[&str], all: &mut String) {
    let args: Vec<&str> = path.iter().map(String::as_str).chain(["--help"]).collect();
    let help = program.ok(&args);
    all.push_str(&format!("==== {}\n{}\n", args.join(" "), help.trim_end()));
    for name in subcommands(&help) {
        if name != "help" && !(path.is_empty() && others.contains(&name.as_str())) {
            path.push(name);
            collect_help(program, path, others, all);
            path.pop();
        }
    }
}

/// Names below "Commands:".
fn subcommands(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|l| *l != "Commands:").skip(1);
    let lines = lines.take_while(|l| !l.is_empty());
    lines
        .filter(|l| l.starts_with("  ") && !l.starts_with("   "))
        .filter_map(|l| l.split_whitespace().next().map(str::to_owned))
        .collect()
}

/// All manual pages, in the order of their names.
fn pages(program: Program) -> String {
    let folder = std::env::temp_dir().join(format!("mpbond-pages-{}", std::process::id()));
    program.ok(&["man", folder.to_str().unwrap()]);
    let files_in = |folder: &Path| {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut files: Vec<_> = entries.map(|e| e.unwrap().path()).collect();
        files.sort();
        files
    };
    let files = files_in(&folder).into_iter().flat_map(|f| files_in(&f));
    let mut all = String::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let name = file.file_name().unwrap().display().to_string();
        all.push_str(&format!("==== {name}\n{}\n", text.trim_end()));
    }
    std::fs::remove_dir_all(&folder).unwrap();
    all
}
