//! The daemon's dropped privileges.

use mpbond::status::Status;

use super::finding::Findings;

const CHECK: &str = "sandbox";

/// By the status of the running daemon, else by the configuration.
pub(super) fn check(findings: &mut Findings, configured: bool, status: Option<&Status>) {
    let restart = "remove `sandbox = false` from the configuration, and start the daemon anew";
    match status {
        None if configured => {}
        None => findings.warn(CHECK, "is switched off in the configuration", restart),
        Some(status) => match &status.sandbox {
            None => findings.warn(CHECK, "the daemon keeps all its privileges", restart),
            Some(sandbox) if sandbox.problems.is_empty() => {
                findings.ok(CHECK, sandbox.summary());
            }
            Some(sandbox) => findings.warn(
                CHECK,
                format!("{}: {}", sandbox.summary(), sandbox.problems.join("; ")),
                "a newer kernel confines it further (Linux 5.13 has Landlock); what else is said \
                 in the daemon's log",
            ),
        },
    }
}

#[cfg(test)]
mod tests {
    use mpbond::status::SandboxStatus;

    use super::super::finding::Verdict;
    use super::*;

    #[test]
    fn what_is_not_given_up_is_said() {
        let whole = SandboxStatus {
            no_new_privileges: true,
            landlock_abi: Some(7),
            calls_refused: Some(80),
            ..SandboxStatus::default()
        };
        let old_kernel = SandboxStatus {
            landlock_abi: None,
            problems: vec!["files are not confined: this kernel has no Landlock".to_owned()],
            ..whole.clone()
        };
        for (configured, told, warns, word) in [
            (true, None, false, ""),
            (false, None, true, "switched off"),
            (true, Some(Some(whole)), false, "no capabilities"),
            (true, Some(Some(old_kernel)), true, "no Landlock"),
            (false, Some(None), true, "keeps all"),
        ] {
            let status = told.map(|sandbox| Status {
                sandbox,
                ..Status::default()
            });
            let mut findings = Findings::default();
            check(&mut findings, configured, status.as_ref());
            let text = findings.to_text();
            assert_eq!(findings.any(Verdict::Warn), warns, "{text}");
            assert!(text.contains(word), "{text}");
        }
    }
}
