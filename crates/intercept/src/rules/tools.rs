//! Runs of the programs that change the kernel's rules: `nft` and `ip`.

use std::io::Write as _;
use std::process::{Command, Stdio};

use tracing::debug;

use super::error::RulesError;
use super::family::Family;

/// Maximum length of a tool's error message in bytes.
pub(super) const MAX_COMPLAINT_BYTES: u64 = 2000;

/// Runs a batch of `ip`.
pub(super) fn batch(family: Family, text: &str) -> Result<(), RulesError> {
    run("ip", &[family.option(), "-batch", "-"], Some(text)).map(drop)
}

/// Runs a batch of `ip`, each command of which may fail: where there is nothing to be removed.
pub(super) fn try_batch(family: Family, text: &str) {
    let arguments = [family.option(), "-force", "-batch", "-"];
    let _ = run("ip", &arguments, Some(text));
}

/// Runs a tool and returns its standard output.
pub(super) fn run(
    tool: &'static str,
    arguments: &[&str],
    input: Option<&str>,
) -> Result<String, RulesError> {
    let stdin = match input {
        Some(_) => Stdio::piped(),
        None => Stdio::null(),
    };
    let mut child = Command::new(tool)
        .args(arguments)
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|cause| RulesError::Missing { tool, cause })?;
    if let (Some(text), Some(mut stdin)) = (input, child.stdin.take()) {
        // If a tool fails early, its own error message is better than EPIPE. Scripts are much
        // shorter than the pipe's capacity.
        if let Err(error) = stdin.write_all(text.as_bytes()) {
            debug!(tool, %error, "tool did not read all of its input");
        }
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        let complaint = one_line(&output.stderr);
        return Err(RulesError::Refused { tool, complaint });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Joins an error message of several lines, without the markers under its words.
pub(super) fn one_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<_> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.chars().all(|c| "^~ ".contains(c)))
        .collect();
    let mut line = lines.join(" / ");
    if line.len() > MAX_COMPLAINT_BYTES as usize {
        line = line.chars().take(MAX_COMPLAINT_BYTES as usize).collect();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_fit_a_line() {
        let text = b"/dev/stdin:3:1-4: Error: No such file\nadd rule\n   ^^^^~~\n\n";
        assert_eq!(
            one_line(text),
            "/dev/stdin:3:1-4: Error: No such file / add rule"
        );
        assert_eq!(one_line(&[b'x'; 9000]).len(), MAX_COMPLAINT_BYTES as usize);
    }
}
