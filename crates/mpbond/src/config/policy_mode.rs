//! Change of a policy's mode by a program.

use mpbond_policy::Mode;
use toml_edit::{Document, Item, TomlError, table, value};

use super::primary_edit::rewrite;

/// The text of a policy with this mode; everything else and the comments stay.
///
/// # Errors
/// The text is no TOML, or has no table `policy` where one belongs.
pub fn policy_with_mode(text: &str, mode: Mode) -> Result<String, String> {
    let refused = |e: TomlError| e.message().to_owned();
    let mut document = Document::parse(text).map_err(refused)?.into_mut();
    let policy = document.entry("policy").or_insert_with(table);
    let Some(policy) = policy.as_table_like_mut() else {
        return Err("policy is no table".to_owned());
    };
    match policy.get_mut("mode").and_then(Item::as_value_mut) {
        Some(written) => rewrite(written, mode.name()),
        None => {
            policy.insert("mode", value(mode.name()));
        }
    }
    Ok(document.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_mode_changes() {
        for (before, after) in [
            ("", "[policy]\nmode = \"saver\"\n"),
            (
                "[policy]\nmode = \"balanced\" # mine\nzone = \"UTC\"\n",
                "[policy]\nmode = \"saver\" # mine\nzone = \"UTC\"\n",
            ),
            (
                "# a\n[[link]]\nname = \"w\"\n",
                "# a\n[[link]]\nname = \"w\"\n\n[policy]\nmode = \"saver\"\n",
            ),
            (
                "policy.zone = \"UTC\"\n",
                "policy.zone = \"UTC\"\npolicy.mode = \"saver\"\n",
            ),
            ("policy = {}\n", "policy = { mode = \"saver\" }\n"),
        ] {
            assert_eq!(policy_with_mode(before, Mode::Saver).as_deref(), Ok(after));
        }
        for wrong in ["[", "policy = 1\n", "[[policy]]\n"] {
            assert!(policy_with_mode(wrong, Mode::Saver).is_err(), "{wrong}");
        }
    }
}
