//! Findings of the doctor.

use std::path::{Path, PathBuf};

use mpbond::config::{Role, config_file};
use serde::{Deserialize, Serialize, Serializer};

use super::super::hints;

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    Ok,
    /// It could not be checked.
    Skip,
    /// It works, perhaps not as intended.
    Warn,
    /// It does not work.
    Fail,
}

/// The result of one check.
#[derive(Debug, Serialize)]
struct Finding {
    #[serde(serialize_with = "name")]
    role: Role,
    check: String,
    verdict: Verdict,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

fn name<S: Serializer>(role: &Role, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(role.name())
}

/// All results, in the order in which they were found.
#[derive(Debug)]
pub(super) struct Findings {
    role: Role,
    /// The configuration of that role.
    file: PathBuf,
    all: Vec<Finding>,
    /// Headings, with the number of findings before them.
    headings: Vec<(usize, String)>,
}

impl Default for Findings {
    fn default() -> Self {
        Self {
            role: Role::Primary,
            file: config_file(Role::Primary),
            all: Vec::new(),
            headings: Vec::new(),
        }
    }
}

impl Findings {
    /// Begins with a role, and its configuration.
    pub(super) fn begin(&mut self, role: Role, file: &Path) {
        self.role = role;
        file.clone_into(&mut self.file);
        let heading = format!("{role} ({})", file.display());
        self.headings.push((self.all.len(), heading));
    }

    /// A command about the configuration that is checked, as it has to be typed here.
    pub(super) fn command(&self, words: &str) -> String {
        hints::command(words, self.role, &self.file)
    }

    /// The command that pairs the device with this configuration.
    pub(super) fn pair(&self) -> String {
        hints::pair(self.role, &self.file)
    }

    pub(super) fn ok(&mut self, check: &str, detail: impl Into<String>) {
        self.add(check, Verdict::Ok, detail.into(), None);
    }

    /// Notes what could not be checked, and the reason.
    pub(super) fn skip(&mut self, check: &str, what: &str, why: impl std::fmt::Display) {
        let detail = format!("{what}: not checked: {why}");
        self.add(check, Verdict::Skip, detail, None);
    }

    pub(super) fn warn(
        &mut self,
        check: &str,
        detail: impl Into<String>,
        advice: impl Into<String>,
    ) {
        self.add(check, Verdict::Warn, detail.into(), Some(advice.into()));
    }

    pub(super) fn fail(
        &mut self,
        check: &str,
        detail: impl Into<String>,
        advice: impl Into<String>,
    ) {
        self.add(check, Verdict::Fail, detail.into(), Some(advice.into()));
    }

    pub(super) fn add(
        &mut self,
        check: &str,
        verdict: Verdict,
        detail: String,
        advice: Option<String>,
    ) {
        self.all.push(Finding {
            role: self.role,
            check: check.to_owned(),
            verdict,
            detail,
            advice,
        });
    }

    pub(super) fn any(&self, verdict: Verdict) -> bool {
        self.all.iter().any(|f| f.verdict == verdict)
    }

    pub(super) fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(&self.all).map(|text| text + "\n")
    }

    pub(super) fn to_text(&self) -> String {
        let mut text = String::new();
        let checks = self.all.iter().map(|f| f.check.chars().count());
        let width = checks.max().unwrap_or_default();
        for (index, f) in self.all.iter().enumerate() {
            let heading = self.headings.iter().find(|(at, _)| *at == index);
            if let Some((_, heading)) = heading.filter(|_| self.headings.len() > 1) {
                let gap = if index == 0 { "" } else { "\n" };
                text.push_str(&format!("{gap}{heading}\n"));
            }
            let verdict = match f.verdict {
                Verdict::Ok => "ok",
                Verdict::Skip => "skip",
                Verdict::Warn => "warn",
                Verdict::Fail => "FAIL",
            };
            text.push_str(&format!(
                "{verdict:<4}  {:<width$}  {}\n",
                f.check, f.detail
            ));
            if let Some(advice) = &f.advice {
                text.push_str(&format!("      {:<width$}  -> {advice}\n", ""));
            }
        }
        let count = |v| self.all.iter().filter(|f| f.verdict == v).count();
        let counts = [Verdict::Fail, Verdict::Warn, Verdict::Skip].map(count);
        text.push_str(&match counts {
            [0, 0, 0] => "all is well".to_owned(),
            [0, 0, _] => "nothing fails".to_owned(),
            [0, w, _] => format!("nothing fails, {w} to look at"),
            [f, w, _] => format!("{f} failed, {w} to look at"),
        });
        if let [_, _, skipped] = counts
            && skipped > 0
        {
            text.push_str(&format!(", {skipped} not checked"));
        }
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_a_check_and_advice_below() {
        let mut findings = Findings::default();
        findings.ok("clock", "2026-11-20");
        findings.fail("path lte", "no answer", "open the port");
        findings.skip("path lte", "4 kB each way", "the proxy is not reached");
        assert_eq!(
            findings.to_text(),
            "ok    clock     2026-11-20\n\
             FAIL  path lte  no answer\n\
             \x20               -> open the port\n\
             skip  path lte  4 kB each way: not checked: the proxy is not reached\n\
             1 failed, 0 to look at, 1 not checked\n"
        );
        assert!(findings.any(Verdict::Fail) && !findings.any(Verdict::Warn));
        let json: serde_json::Value = serde_json::from_str(&findings.to_json().unwrap()).unwrap();
        assert_eq!(json[1]["verdict"], "fail");
        assert!(json[0].get("advice").is_none());
    }
}
