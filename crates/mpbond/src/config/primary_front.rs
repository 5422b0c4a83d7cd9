//! A front for applications, added to a primary's configuration by a program.

use std::path::Path;

use toml_edit::{Item, Table, value};

use super::primary_edit::{PrimaryEdit, edit_keys, parsed};
use super::primary_file::SOCKS5;
use super::source::{ConfigError, Source};

/// Sections of fronts.
const FRONTS: [&str; 3] = ["socks5", "http", "transparent"];

/// Means by which applications reach a primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// SOCKS5 on this device, for applications that are set to use it.
    Socks5,
    /// Transparent interception, for all applications.
    Transparent,
}

impl PrimaryEdit {
    /// Adds a front to the primary's configuration in this file: SOCKS5 unless it has a front,
    /// transparent interception also beside others.
    ///
    /// # Errors
    /// As [`make`](Self::make).
    pub fn add_front(path: &Path, front: Front) -> Result<Self, ConfigError> {
        Self::change(path, |source| with_front(source, front))
    }
}

fn with_front(source: &Source<'_>, front: Front) -> Result<String, ConfigError> {
    let mut document = parsed(source)?.into_mut();
    edit_keys(&mut document, |keys| add_front(keys, front));
    Ok(document.to_string())
}

fn add_front(document: &mut Table, front: Front) {
    let is_there = match front {
        Front::Socks5 => FRONTS.iter().any(|name| document.get(name).is_some()),
        Front::Transparent => document.get("transparent").is_some(),
    };
    if is_there {
        if front == Front::Transparent {
            switch_on(document);
        }
        return;
    }
    let (name, key, set) = match front {
        Front::Socks5 => ("socks5", "listen", value(SOCKS5.to_string())),
        Front::Transparent => ("transparent", "enabled", value(true)),
    };
    let mut table = Table::new();
    table.insert(key, set);
    table.decor_mut().set_prefix("\n");
    document.insert(name, Item::Table(table));
}

/// Interception that is there, and may be off.
fn switch_on(document: &mut Table) {
    let section = document
        .get_mut("transparent")
        .and_then(Item::as_table_like_mut);
    let enabled = section.and_then(|keys| keys.get_mut("enabled")?.as_value_mut());
    if let Some(enabled) = enabled {
        let decor = enabled.decor().clone();
        *enabled = true.into();
        *enabled.decor_mut() = decor;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_front_is_added_where_there_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("primary.toml");
        for (before, front, added) in [
            ("", Front::Socks5, "[socks5]\nlisten = \"127.0.0.1:1080\"\n"),
            (
                "# mine\n[proxy]\n",
                Front::Transparent,
                "[transparent]\nenabled = true\n",
            ),
            (
                "[socks5]\n",
                Front::Transparent,
                "[transparent]\nenabled = true\n",
            ),
            ("[http]\nlisten = \"127.0.0.1:8080\"\n", Front::Socks5, ""),
            ("[transparent]\nenabled = false\n", Front::Socks5, ""),
            ("[transparent]\nmode = \"tproxy\"\n", Front::Transparent, ""),
        ] {
            std::fs::write(&path, before).unwrap();
            PrimaryEdit::add_front(&path, front).unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(text.starts_with(before) && text.ends_with(added), "{text}");
            assert_eq!(text.len() == before.len(), added.is_empty(), "{text}");
        }
    }
    #[test]
    fn interception_that_is_off_is_switched_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("primary.toml");
        std::fs::write(&path, "[transparent]\nenabled = false # for now\n").unwrap();
        PrimaryEdit::add_front(&path, Front::Transparent).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "[transparent]\nenabled = true # for now\n");
    }
}
