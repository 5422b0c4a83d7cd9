//! Own links of a primary, added to its configuration by a program.

use std::path::Path;

use toml_edit::{ArrayOfTables, Item, Table, Value, value};

use super::primary_edit::{PrimaryEdit, edit_keys, keys, parsed, tables, text};
use super::source::{ConfigError, Source};

/// Sections of own links.
pub(super) const PATH: &str = "path";

impl PrimaryEdit {
    /// The own links that the primary's configuration in this file has, by interface or else by
    /// another key; none without a file.
    ///
    /// # Errors
    /// When the file cannot be read or is no TOML.
    pub fn links(path: &Path) -> Result<Vec<String>, ConfigError> {
        if !path.exists() {
            return Ok(Vec::new());
        }
        let source = Source::read(path)?;
        let document = parsed(&source)?;
        let paths = keys(document.as_table()).get(PATH);
        let paths = paths.into_iter().flat_map(tables);
        let links = paths.map(|path| {
            let keys = ["interface", "source", "name"];
            let found = keys.iter().find_map(|key| text(path, key));
            found.unwrap_or("default route").to_owned()
        });
        Ok(links.collect())
    }

    /// Adds a path for each of these interfaces to the primary's configuration in this file, unless
    /// one is there.
    ///
    /// # Errors
    /// As [`make`](Self::make).
    pub fn add_links(path: &Path, interfaces: &[String]) -> Result<Self, ConfigError> {
        Self::change(path, |source| {
            let mut document = parsed(source)?.into_mut();
            edit_keys(&mut document, |keys| insert_links(keys, interfaces));
            Ok(document.to_string())
        })
    }
}

/// Adds those that no path has.
pub(super) fn insert_links(document: &mut Table, interfaces: &[String]) {
    let has = |document: &Table, interface: &str| {
        let mut paths = document.get(PATH).into_iter().flat_map(tables);
        paths.any(|path| text(path, "interface") == Some(interface))
    };
    for interface in interfaces {
        if has(document, interface) {
            continue;
        }
        let mut path = Table::new();
        path.insert("interface", value(interface.as_str()));
        path.decor_mut().set_prefix("\n");
        let paths = document
            .entry(PATH)
            .or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
        match paths {
            Item::ArrayOfTables(all) => all.push(path),
            Item::Value(Value::Array(all)) => all.push(path.into_inline_table()),
            // Refused with its place when the form of the result is checked.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_added_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("primary.toml");
        let interfaces = ["wwan0", "eth0", "eth0"].map(str::to_owned);
        assert_eq!(PrimaryEdit::links(&file).unwrap(), [""; 0]);
        let section = "\n[[path]]\ninterface = \"eth0\"\n";
        for (before, after) in [
            (
                "# mine\n[[path]]\ninterface = \"wwan0\" # slow\nname = \"lte\"\n\n[socks5]\n",
                None,
            ),
            (
                "path = [{ interface = \"wwan0\" }] # all\n",
                Some("path = [{ interface = \"wwan0\" }, { interface = \"eth0\" }] # all\n"),
            ),
        ] {
            std::fs::write(&file, before).unwrap();
            assert_eq!(PrimaryEdit::links(&file).unwrap(), ["wwan0"]);
            PrimaryEdit::add_links(&file, &interfaces).unwrap();
            let text = std::fs::read_to_string(&file).unwrap();
            match after {
                Some(after) => assert_eq!(text, after),
                None => assert_eq!(text.replacen(section, "", 1), before, "{text}"),
            }
            assert_eq!(PrimaryEdit::links(&file).unwrap(), ["wwan0", "eth0"]);
            assert!(
                !PrimaryEdit::add_links(&file, &interfaces)
                    .unwrap()
                    .is_change()
            );
        }
        std::fs::write(&file, "[[path]]\nsource = \"10.0.0.1\"\n[[path]]\n").unwrap();
        assert_eq!(
            PrimaryEdit::links(&file).unwrap(),
            ["10.0.0.1", "default route"]
        );
    }
}
