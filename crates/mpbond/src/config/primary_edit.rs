//! A proxy or a helper, added to a primary's configuration by a program.
//!
//! People write that file, with comments and an order of their own: it is changed where it has to
//! be, and otherwise left as it is. Nothing is written that could not be read again.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};

use mpbond_net::DeviceId;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::file;
use super::primary::PrimaryConfig;
use super::primary_file::check_form;
use super::source::{ConfigError, Source};

const MAX_FILE_BYTES: u64 = 1 << 20;

/// A device that a primary calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FarEnd {
    /// The end of its sessions.
    Proxy {
        /// Where it listens.
        address: SocketAddr,
        /// Its id.
        id: DeviceId,
    },
    /// One that lends its link.
    Helper {
        /// For people.
        name: String,
        /// Where it listens.
        address: SocketAddr,
        /// Its id.
        id: DeviceId,
    },
}

/// A change that was made, and can be taken back.
#[derive(Clone, Debug)]
pub struct PrimaryEdit {
    path: PathBuf,
    before: Option<String>,
    after: String,
}

impl PrimaryEdit {
    /// Adds a proxy or helper to the primary's configuration in this file, which need not exist
    /// yet. One that is known already gets its new address.
    ///
    /// # Errors
    /// When the file can't be read or written, is no primary's configuration, or names another
    /// proxy. Nothing has been changed then.
    pub fn make(path: &Path, far: &FarEnd) -> Result<Self, ConfigError> {
        let wrong = |what: &str, e: &io::Error| {
            ConfigError::about_file(path, format_args!("cannot be {what}: {e}"))
        };
        let _lock = file::lock(path).map_err(|e| wrong("locked", &e))?;
        let before = file::read(path, MAX_FILE_BYTES).map_err(|e| wrong("read", &e))?;
        let source = Source::of_text(path, before.clone().unwrap_or_default());
        check_form(&source)?;
        let after = edited(&source, far)?;
        let result = Source::of_text(path, after);
        check_form(&result)?;
        // What a daemon could start with before, it can start with now.
        if PrimaryConfig::of_source(&source).is_ok() {
            PrimaryConfig::of_source(&result)?;
        }
        let edit = Self {
            path: path.to_owned(),
            before,
            after: result.text().to_owned(),
        };
        if edit.is_change() {
            file::replace(path, &edit.after).map_err(|e| wrong("written", &e))?;
        }
        Ok(edit)
    }

    /// Whether a file, if it exists, is one that can be added to.
    ///
    /// # Errors
    /// When it can't be read or has a key that is none of a primary's.
    pub fn check(path: &Path) -> Result<(), ConfigError> {
        if path.exists() {
            check_form(&Source::read(path)?)?;
        }
        Ok(())
    }

    /// Whether anything had to be written.
    pub fn is_change(&self) -> bool {
        self.before.as_ref() != Some(&self.after)
    }

    /// Takes the change back, unless somebody has edited the file since.
    ///
    /// # Errors
    /// When the file can't be read or written.
    pub fn undo(&self) -> Result<(), ConfigError> {
        let undo = || {
            let _lock = file::lock(&self.path)?;
            if file::read(&self.path, MAX_FILE_BYTES)?.as_ref() != Some(&self.after) {
                return Ok(());
            }
            match &self.before {
                Some(text) => file::replace(&self.path, text),
                None => std::fs::remove_file(&self.path),
            }
        };
        undo().map_err(|e: io::Error| {
            ConfigError::about_file(&self.path, format_args!("cannot be put back: {e}"))
        })
    }
}

/// The text with the device in it.
fn edited(source: &Source<'_>, far: &FarEnd) -> Result<String, ConfigError> {
    let text = source.text();
    let Ok(document) = DeTable::parse(text) else {
        // The form has been read already.
        return Err(ConfigError::about_file(source.file, "no TOML"));
    };
    let document = document.get_ref();
    match far {
        FarEnd::Proxy { address, id } => {
            let proxy = document.get("proxy");
            let Some((table, span)) = proxy.and_then(|p| Some((p.get_ref().as_table()?, p.span())))
            else {
                return Ok(section(
                    text,
                    &format!("[proxy]\naddress = \"{address}\"\nid = \"{id}\"\n"),
                ));
            };
            let known = string(table, "id").map(|(known, _)| known);
            match known.as_deref().map(str::parse::<DeviceId>) {
                Some(Ok(known)) if known == *id => {
                    Ok(readdressed(text, string(table, "address"), *address))
                }
                _ => Err(source.wrong(
                    span,
                    "proxy",
                    "names another proxy, and a primary has one: remove this section to use the \
                     new one",
                )),
            }
        }
        FarEnd::Helper { name, address, id } => {
            let helpers = tables(document, "helper");
            let known = helpers.iter().find(|table| {
                string(table, "id").is_some_and(|(known, _)| known.parse() == Ok(*id))
            });
            if let Some(known) = known {
                return Ok(readdressed(text, string(known, "address"), *address));
            }
            let name = toml::Value::String(unused(document, name)).to_string();
            Ok(section(
                text,
                &format!("[[helper]]\nname = {name}\naddress = \"{address}\"\nid = \"{id}\"\n"),
            ))
        }
    }
}

/// The text with one more section at its end.
fn section(text: &str, section: &str) -> String {
    let mut text = text.to_owned();
    if !text.is_empty() {
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text.push('\n');
    }
    text.push_str(section);
    text
}

/// The text with another address in the place of one that is written there.
fn readdressed(text: &str, written: Option<(String, Range<usize>)>, address: SocketAddr) -> String {
    let mut text = text.to_owned();
    // Whoever looks for a helper finds it at its new address anyway.
    if let Some((old, span)) = written
        && old != "discover"
        && old.parse() != Ok(address)
        && text.get(span.clone()).is_some()
    {
        text.replace_range(span, &format!("\"{address}\""));
    }
    text
}

fn string(table: &DeTable<'_>, key: &str) -> Option<(String, Range<usize>)> {
    let value = table.get(key)?;
    Some((value.get_ref().as_str()?.to_owned(), value.span()))
}

fn tables<'a, 'i>(document: &'a DeTable<'i>, key: &str) -> Vec<&'a DeTable<'i>> {
    let array = document.get(key).map(Spanned::get_ref);
    let items = array.and_then(DeValue::as_array);
    let items = items.map(|items| items.iter());
    items
        .into_iter()
        .flatten()
        .filter_map(|item| item.get_ref().as_table())
        .collect()
}

/// The name, or where a link has it already, the name with a number.
fn unused(document: &DeTable<'_>, name: &str) -> String {
    let mut taken = vec!["direct".to_owned()];
    for table in tables(document, "path")
        .iter()
        .chain(&tables(document, "helper"))
    {
        // A link without a name is called by one of the others.
        let names = ["name", "interface", "source", "address"];
        taken.extend(names.iter().filter_map(|key| Some(string(table, key)?.0)));
    }
    let with_number = |n: usize| match n {
        1 => name.to_owned(),
        n => format!("{name} {n}"),
    };
    (1..)
        .map(with_number)
        .find(|candidate| !taken.contains(candidate))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::primary::HelperAddress;
    use super::*;

    const FULL: &str = "# my laptop\n[proxy]\naddress = \"203.0.113.1:4433\" # at home\nid = \"PROXY\"\n\n\
        [[path]]\nname = \"lte\"\ninterface = \"wwan0\"\n";

    fn id(n: u8) -> DeviceId {
        DeviceId::from_bytes([n; 32])
    }

    fn proxy(n: u8, address: &str) -> FarEnd {
        FarEnd::Proxy {
            address: address.parse().unwrap(),
            id: id(n),
        }
    }

    fn helper(n: u8, name: &str, address: &str) -> FarEnd {
        FarEnd::Helper {
            name: name.to_owned(),
            address: address.parse().unwrap(),
            id: id(n),
        }
    }

    struct File {
        _folder: tempfile::TempDir,
        path: PathBuf,
    }

    impl File {
        fn new(text: Option<&str>) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("deep/primary.toml");
            if let Some(text) = text {
                std::fs::create_dir(folder.path().join("deep")).unwrap();
                std::fs::write(&path, text.replace("PROXY", &id(1).to_string())).unwrap();
            }
            Self {
                _folder: folder,
                path,
            }
        }

        fn text(&self) -> String {
            std::fs::read_to_string(&self.path).unwrap()
        }
    }

    #[test]
    fn what_people_wrote_stays() {
        let file = File::new(Some(FULL));
        let before = file.text();
        let edit = PrimaryEdit::make(&file.path, &helper(2, "lte", "10.0.0.2:4434")).unwrap();
        let after = file.text();
        assert!(edit.is_change() && after.starts_with(&before), "{after}");
        let config = PrimaryConfig::load(&file.path).unwrap();
        let found = &config.helpers[0];
        assert_eq!(
            (found.name.as_str(), found.id),
            ("lte 2", id(2)),
            "lte is a path's name"
        );
        let at = HelperAddress::At("10.0.0.2:4434".parse().unwrap());
        assert_eq!(found.address, at);

        // The same device again, elsewhere: one address changes.
        PrimaryEdit::make(&file.path, &helper(2, "other", "10.9.9.9:4434")).unwrap();
        assert_eq!(file.text(), after.replace("10.0.0.2", "10.9.9.9"));
        let same = PrimaryEdit::make(&file.path, &helper(2, "other", "10.9.9.9:4434")).unwrap();
        assert!(!same.is_change());
        edit.undo().unwrap();
        assert_ne!(file.text(), before, "edited since: left alone");

        // One that is looked for goes on being looked for.
        let text = file.text().replace("10.9.9.9:4434", "discover");
        std::fs::write(&file.path, &text).unwrap();
        let same = PrimaryEdit::make(&file.path, &helper(2, "other", "10.8.8.8:4434")).unwrap();
        assert!(!same.is_change());

        PrimaryEdit::make(&file.path, &proxy(1, "203.0.113.9:4433")).unwrap();
        assert!(
            file.text().contains("\"203.0.113.9:4433\" # at home"),
            "{}",
            file.text()
        );
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &std::fs::metadata(&file.path).unwrap().permissions(),
        );
        assert_ne!(mode & 0o777, 0o600, "its owner's business");
    }

    #[test]
    fn a_file_is_begun_and_taken_back() {
        let file = File::new(None);
        let edit = PrimaryEdit::make(&file.path, &proxy(1, "203.0.113.1:4433")).unwrap();
        let hostile = "x\"\n[[path]]\nname = \"y";
        let second = PrimaryEdit::make(&file.path, &helper(2, hostile, "[fd00::1]:4434"));
        // A name that no configuration takes is refused as a whole.
        assert!(second.is_err(), "{}", file.text());
        let second = PrimaryEdit::make(&file.path, &helper(2, "a \"b\" \\", "[fd00::1]:4434"));
        let config = PrimaryConfig::load(&file.path).unwrap();
        assert_eq!(config.proxy.id, id(1));
        assert_eq!(config.helpers[0].name, "a \"b\" \\");
        second.unwrap().undo().unwrap();
        edit.undo().unwrap();
        assert!(!file.path.exists());
    }

    #[test]
    fn another_proxy_is_not_replaced_and_nothing_bad_is_written() {
        for (text, far, said) in [
            (
                FULL,
                proxy(3, "203.0.113.1:4433"),
                "primary.toml:2: proxy: names another proxy",
            ),
            (
                "proxi = 3\n",
                proxy(1, "203.0.113.1:4433"),
                "primary.toml:1: proxi: unknown key",
            ),
            (
                "helper = []\n",
                helper(2, "h", "10.0.0.2:1"),
                "primary.toml:",
            ),
        ] {
            let file = File::new(Some(text));
            let before = file.text();
            let error = PrimaryEdit::make(&file.path, &far).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
            assert_eq!(file.text(), before);
        }
    }
}
