//! Files of devices: a section for each role, and the keys that all roles share before them.

use serde::Deserialize;
use serde::de::IgnoredAny;
use toml::Spanned;

use super::source::{ConfigError, Source};

/// Keys that are written before the sections, since they are those of the whole process.
const SHARED: &[&str] = &["identity", "sandbox"];

/// Form of the file. The content of a section is that of the file of its role.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceFile {
    #[serde(rename = "identity")]
    _identity: Option<IgnoredAny>,
    #[serde(rename = "sandbox")]
    _sandbox: Option<IgnoredAny>,
    primary: Option<SectionFile>,
    helper: Option<SectionFile>,
    proxy: Option<SectionFile>,
}

/// What a section must not have; its other keys are read later.
#[derive(Deserialize)]
#[serde(expecting = "one section in single brackets; a primary's helpers are [[primary.helper]]")]
struct SectionFile {
    identity: Option<Spanned<IgnoredAny>>,
    sandbox: Option<Spanned<IgnoredAny>>,
}

impl Source<'_> {
    /// Checks that the text is that of a device's file: sections of roles, with no key that belongs
    /// before them.
    pub(super) fn check_sections(&self) -> Result<(), ConfigError> {
        let file: DeviceFile = self.parse()?;
        let sections = [
            ("primary", file.primary),
            ("helper", file.helper),
            ("proxy", file.proxy),
        ];
        for (name, section) in sections {
            let Some(SectionFile { identity, sandbox }) = section else {
                continue;
            };
            for (key, value) in [("identity", identity), ("sandbox", sandbox)] {
                if let Some(value) = value {
                    return Err(self.wrong(
                        value.span(),
                        &format!("{name}.{key}"),
                        "belongs before the sections: it is the same for all roles of a device",
                    ));
                }
            }
        }
        Ok(())
    }

    /// The configuration of a role: its section where this is a device's file, else the whole.
    pub(super) fn of_role(&self, role: &'static str) -> Result<Source<'_>, ConfigError> {
        if !self.has_table(role) {
            return Ok(self.whole());
        }
        self.check_sections()?;
        Ok(self.section(role, SHARED))
    }
}
