//! Scripts that a test writes and runs.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a script that can be run at once.
///
/// Another process writes it: a program that is open for writing cannot be run (ETXTBSY), and a
/// process that another test starts meanwhile would have inherited the open file.
///
/// # Panics
/// When it cannot be written.
pub fn write_script(file: impl AsRef<Path>, text: &str) {
    let file = file.as_ref();
    let mut cat = Command::new("sh")
        .args(["-c", "cat >\"$0\" && chmod 755 \"$0\""])
        .arg(file)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut to = cat.stdin.take().unwrap();
    to.write_all(text.as_bytes()).unwrap();
    drop(to);
    assert!(cat.wait().unwrap().success(), "{}", file.display());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_that_was_written_runs() {
        let folder = std::env::temp_dir().join(format!("mpbond-script-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let script = folder.join("script");
        for word in ["first", "second"] {
            write_script(&script, &format!("#!/bin/sh\necho {word}\n"));
            let output = Command::new(&script).output().unwrap();
            assert_eq!(output.stdout, format!("{word}\n").as_bytes());
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
