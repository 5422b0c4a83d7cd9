//! The key `on_proxy_loss`, written into a primary's configuration by a program.

use std::path::Path;

use toml_edit::{Item, value};

use super::primary::OnProxyLoss;
use super::primary_edit::{PrimaryEdit, edit_keys, keys, parsed, rewrite};
use super::source::{ConfigError, Source};

const ON_PROXY_LOSS: &str = "on_proxy_loss";

impl PrimaryEdit {
    /// Writes `on_proxy_loss` into the primary's configuration in this file.
    ///
    /// # Errors
    /// As [`make`](Self::make); also when a kill switch contradicts it.
    pub fn set_on_proxy_loss(path: &Path, policy: OnProxyLoss) -> Result<Self, ConfigError> {
        Self::change(path, |source| {
            let mut document = parsed(source)?.into_mut();
            edit_keys(&mut document, |keys| {
                match keys.get_mut(ON_PROXY_LOSS).and_then(Item::as_value_mut) {
                    Some(written) => rewrite(written, policy.name()),
                    None => drop(keys.insert(ON_PROXY_LOSS, value(policy.name()))),
                }
            });
            Ok(document.to_string())
        })
    }

    /// Whether the file has the key `on_proxy_loss`, or a kill switch that decides on it.
    ///
    /// # Errors
    /// When it cannot be read or is no TOML.
    pub fn has_on_proxy_loss(path: &Path) -> Result<bool, ConfigError> {
        let source = Source::read(path)?;
        let document = parsed(&source)?;
        let keys = keys(document.as_table());
        let transparent = keys.get("transparent");
        let kill_switch = transparent.and_then(|t| t.get("kill_switch"));
        let decides = kill_switch.is_some_and(|k| k.as_str() != Some("off"));
        Ok(decides || keys.get(ON_PROXY_LOSS).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::super::primary::PrimaryConfig;
    use super::*;

    #[test]
    fn the_policy_for_a_lost_proxy_is_written_before_the_sections() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("primary.toml");
        let text = || std::fs::read_to_string(&path).unwrap();
        let id = mpbond_net::DeviceId::from_bytes([1; 32]);
        let full = format!(
            "# my laptop\n[proxy]\naddress = \"203.0.113.1:4433\" # at home\nid = \"{id}\"\n\n\
             [[path]]\nname = \"lte\"\ninterface = \"wwan0\"\n"
        );
        std::fs::write(&path, &full).unwrap();
        assert!(!PrimaryEdit::has_on_proxy_loss(&path).unwrap());
        PrimaryEdit::set_on_proxy_loss(&path, OnProxyLoss::Fail).unwrap();
        assert_eq!(text(), format!("on_proxy_loss = \"fail\"\n{full}"));
        assert!(PrimaryEdit::has_on_proxy_loss(&path).unwrap());
        PrimaryEdit::set_on_proxy_loss(&path, OnProxyLoss::Direct).unwrap();
        let config = PrimaryConfig::load(&path).unwrap();
        assert_eq!(config.on_proxy_loss, OnProxyLoss::Direct);

        let before = format!("{full}[transparent]\nkill_switch = \"permanent\"\n");
        std::fs::write(&path, &before).unwrap();
        assert!(PrimaryEdit::has_on_proxy_loss(&path).unwrap());
        let error = PrimaryEdit::set_on_proxy_loss(&path, OnProxyLoss::Direct).unwrap_err();
        assert!(error.to_string().contains("contradicts"), "{error}");
        assert_eq!(text(), before);
    }
}
