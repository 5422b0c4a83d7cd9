//! A helper, removed from a primary's configuration by a program.

use std::path::Path;

use mpbond_net::DeviceId;
use toml_edit::{Item, TableLike, Value};

use super::primary_edit::{PrimaryEdit, edit_keys, keys, parsed, tables, text};
use super::source::{ConfigError, Source};

const HELPER: &str = "helper";

/// A helper that was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedHelper {
    /// Its id.
    pub id: DeviceId,
    /// Its name in the file, where it has one there.
    pub name: Option<String>,
}

impl PrimaryEdit {
    /// Removes the sections of a helper, which a person calls by its name in the file, its id, or
    /// the beginning of its id.
    ///
    /// # Errors
    /// When the file cannot be read or written, has no such helper or several, or is no
    /// configuration of a primary without it. Nothing has been changed then.
    pub fn remove_helper(path: &Path, device: &str) -> Result<RemovedHelper, ConfigError> {
        if !path.exists() {
            return Err(ConfigError::about_file(path, "there is no such file"));
        }
        let mut removed = None;
        Self::change(path, |source| {
            let (found, without) = edited(source, device)?;
            removed = Some(found);
            Ok(without)
        })?;
        removed.ok_or_else(|| ConfigError::about_file(path, "nothing was removed"))
    }
}

fn edited(source: &Source<'_>, device: &str) -> Result<(RemovedHelper, String), ConfigError> {
    let document = parsed(source)?;
    let found = named(source, keys(document.as_table()).get(HELPER), device)?;
    let mut document = document.into_mut();
    edit_keys(&mut document, |keys| {
        let stays = |table: &dyn TableLike| id_of(table) != Some(found.id);
        let is_empty = match keys.get_mut(HELPER) {
            Some(Item::ArrayOfTables(all)) => {
                all.retain(|table| stays(table));
                all.is_empty()
            }
            Some(Item::Value(Value::Array(all))) => {
                all.retain(|value| value.as_inline_table().is_none_or(|table| stays(table)));
                all.is_empty()
            }
            _ => false,
        };
        if is_empty {
            keys.remove(HELPER);
        }
    });
    Ok((found, document.to_string()))
}

fn id_of(table: &dyn TableLike) -> Option<DeviceId> {
    text(table, "id")?.parse().ok()
}

/// The helper that a person means.
fn named(
    source: &Source<'_>,
    list: Option<&Item>,
    device: &str,
) -> Result<RemovedHelper, ConfigError> {
    let (mut of_name, mut of_id): (Vec<RemovedHelper>, Vec<RemovedHelper>) = Default::default();
    for table in list.into_iter().flat_map(tables) {
        let Some(id) = id_of(table) else {
            continue;
        };
        let name = text(table, "name").map(str::to_owned);
        let is_it = |known: &RemovedHelper| known.id == id;
        if name.as_deref() == Some(device) && !of_name.iter().any(is_it) {
            of_name.push(RemovedHelper { id, name });
        } else if id.begins_with(device) && !of_id.iter().any(is_it) {
            of_id.push(RemovedHelper { id, name });
        }
    }
    let mut found = if of_name.is_empty() { of_id } else { of_name };
    let device = device.escape_debug();
    match (found.pop(), found.is_empty()) {
        (Some(one), true) => Ok(one),
        (Some(_), false) => Err(ConfigError::about_file(
            source.file,
            format_args!("several helpers may be meant by \"{device}\": say the id"),
        )),
        (None, _) => Err(ConfigError::about_file(
            source.file,
            format_args!("no [[helper]] has the name \"{device}\", or an id that begins with it"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::super::FarEnd;
    use super::*;

    fn id(n: u8) -> DeviceId {
        DeviceId::from_bytes([n; 32])
    }

    /// A configuration with two helpers, of which the first one has two sections.
    fn written() -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("primary.toml");
        let (proxy, phone, watch) = (id(1), id(2), id(3));
        let text = format!(
            "# mine\n[proxy]\naddress = \"203.0.113.1:4433\"\nid = \"{proxy}\"\n\n\
             # The phone.\n[[helper]]\nname = \"phone\"\naddress = \"10.0.0.1:4434\"\nid = \"{phone}\"\n\n\
             [[helper]]\nname = \"watch\"\naddress = \"10.0.0.2:4434\"\nid = \"{watch}\"\n\n\
             [[helper]]\nname = \"phone by cable\"\naddress = \"10.1.0.1:4434\"\nid = \"{phone}\"\n\n\
             [[path]]\nname = \"own\"\n"
        );
        std::fs::write(&file, text).unwrap();
        (folder, file)
    }

    #[test]
    fn all_sections_of_a_device_go_and_the_rest_stays() {
        for device in ["phone", &id(2).to_string(), &id(2).to_string()[..9]] {
            let (_folder, file) = written();
            let before = std::fs::read_to_string(&file).unwrap();
            let removed = PrimaryEdit::remove_helper(&file, device).unwrap();
            assert_eq!(removed.id, id(2));
            let after = std::fs::read_to_string(&file).unwrap();
            let phone = id(2).to_string();
            let all: Vec<&str> = before.split("\n\n").collect();
            let rest: Vec<&str> = all.into_iter().filter(|s| !s.contains(&phone)).collect();
            assert_eq!(after, rest.join("\n\n"), "{device}");
            // It can be paired with again.
            let far = FarEnd::Helper {
                name: "phone".to_owned(),
                address: "10.0.0.1:4434".parse().unwrap(),
                id: id(2),
                interface: None,
            };
            assert!(PrimaryEdit::make(&file, &far, &[]).unwrap().is_change());
        }
    }

    #[test]
    fn a_file_of_a_device_and_the_last_helper() {
        let (_folder, file) = written();
        let text = std::fs::read_to_string(&file).unwrap();
        let text = text.replace("[[helper]]", "[[primary.helper]]");
        let text = text.replace("[proxy]", "[primary.proxy]");
        std::fs::write(&file, text.replace("[[path]]", "[[primary.path]]")).unwrap();
        for device in ["phone", "watch"] {
            PrimaryEdit::remove_helper(&file, device).unwrap();
        }
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(
            !text.contains("helper") && text.contains("[[primary.path]]"),
            "{text}"
        );
    }

    #[test]
    fn nothing_is_changed_where_the_device_is_unknown_or_the_last_way() {
        let (folder, file) = written();
        let before = std::fs::read_to_string(&file).unwrap();
        for (device, problem) in [
            ("tablet", "no [[helper]] has the name \"tablet\""),
            ("AB", "no [[helper]]"),
            ("", "no [[helper]]"),
        ] {
            let error = PrimaryEdit::remove_helper(&file, device).unwrap_err();
            assert!(error.to_string().contains(problem), "{error}");
        }
        let text = before.replace("[[path]]\nname = \"own\"\n", "");
        std::fs::write(&file, &text).unwrap();
        PrimaryEdit::remove_helper(&file, "phone").unwrap();
        let error = PrimaryEdit::remove_helper(&file, "watch").unwrap_err();
        assert!(error.to_string().contains("path"), "{error}");
        assert!(std::fs::read_to_string(&file).unwrap().contains("watch"));
        let missing = folder.path().join("none.toml");
        let error = PrimaryEdit::remove_helper(&missing, "phone").unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("none.toml: there is no such file"),
            "{error}"
        );
    }
}
