//! Configuration of a device with several roles in one process.

use std::path::Path;

use super::place::Role;
use super::source::{ConfigError, Source};
use super::{HelperConfig, PrimaryConfig, ProxyConfig};

/// `mpbond up --config FILE`: the configurations of the roles that the file has sections for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceConfig {
    /// Section `[primary]`.
    pub primary: Option<PrimaryConfig>,
    /// Section `[helper]`.
    pub helper: Option<HelperConfig>,
    /// Section `[proxy]`.
    pub proxy: Option<ProxyConfig>,
}

impl DeviceConfig {
    /// Reads and checks a configuration; all of its sections.
    ///
    /// # Errors
    /// One line naming file, line, key and what is allowed.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let source = Source::read(path)?;
        source.check_sections()?;
        let has = |role: Role| source.has_table(role.name());
        let primary = has(Role::Primary).then(|| PrimaryConfig::of_source(&source));
        let helper = has(Role::Helper).then(|| HelperConfig::of_source(&source));
        let proxy = has(Role::Proxy).then(|| ProxyConfig::of_source(&source));
        let config = Self {
            primary: primary.transpose()?,
            helper: helper.transpose()?,
            proxy: proxy.transpose()?,
        };
        if config.roles().is_empty() {
            let problem = "no section [primary], [helper] or [proxy]: this device has no role";
            return Err(ConfigError::about_file(path, problem));
        }
        let intercepts = config
            .primary
            .as_ref()
            .is_some_and(|p| p.transparent.is_some());
        if intercepts && config.proxy.is_some() {
            let problem = "[primary.transparent] beside [proxy]: what the proxy opens for others \
                           would be intercepted";
            return Err(ConfigError::about_file(path, problem));
        }
        Ok(config)
    }

    /// The roles that have a section.
    pub fn roles(&self) -> Vec<Role> {
        let mut roles = Vec::new();
        roles.extend(self.primary.as_ref().map(|_| Role::Primary));
        roles.extend(self.helper.as_ref().map(|_| Role::Helper));
        roles.extend(self.proxy.as_ref().map(|_| Role::Proxy));
        roles
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FarEnd, Front, OnProxyLoss, PrimaryEdit, has_section, identity_and_trust};
    use super::*;

    const DEVICE: &str = "identity = \"key.pem\"\nsandbox = false\n\n\
        [primary.proxy]\naddress = \"203.0.113.1:4433\"\nid = \"ID\"\n\n\
        [[primary.path]]\ninterface = \"wwan0\"\n\n\
        [helper] # lends\nproxies = \"203.0.113.1:4433\"\ntrust = [\"ID\"]\n";

    /// A folder with a `device.toml`.
    fn written(text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("device.toml");
        let id = mpbond_net::DeviceId::from_bytes([7; 32]).to_string();
        std::fs::write(&file, text.replace("\"ID\"", &format!("\"{id}\""))).unwrap();
        (folder, file)
    }

    #[test]
    fn each_role_has_its_section_and_the_keys_of_the_process() {
        let (folder, file) = written(DEVICE);
        let device = DeviceConfig::load(&file).unwrap();
        assert_eq!(device.roles(), [Role::Primary, Role::Helper]);
        let (primary, helper) = (device.primary.unwrap(), device.helper.unwrap());
        let key = folder.path().join("key.pem");
        assert_eq!((&primary.identity, primary.sandbox), (&key, false));
        assert_eq!((&helper.identity, helper.sandbox), (&key, false));
        assert_eq!(primary.paths[0].interface.as_deref(), Some("wwan0"));
        // By the commands of single roles, too.
        assert_eq!(PrimaryConfig::load(&file).unwrap(), primary);
        assert_eq!(HelperConfig::load(&file).unwrap(), helper);
        assert_eq!(identity_and_trust(&file).unwrap(), (key, helper.trust));
        assert!(has_section(Role::Helper, &file) && !has_section(Role::Proxy, &file));
    }

    #[test]
    fn whom_a_device_trusts_stands_in_two_sections() {
        let other = mpbond_net::DeviceId::from_bytes([9; 32]);
        let proxy = format!("[proxy]\ntrust = [\"{other}\", \"ID\"]\n");
        let (folder, file) = written(&format!("{DEVICE}{proxy}"));
        let own = mpbond_net::DeviceId::from_bytes([7; 32]);
        let expected = (folder.path().join("key.pem"), vec![own, other]);
        assert_eq!(identity_and_trust(&file).unwrap(), expected);
    }

    #[test]
    fn the_example_is_right() {
        let example = super::super::example::DEVICE;
        let (_folder, file) = written(
            &example
                .replace("\"PROXY-ID\"", "\"ID\"")
                .replace("\"HELPER-ID\"", "\"ID\""),
        );
        assert_eq!(DeviceConfig::load(&file).unwrap().roles().len(), 2);
    }

    #[test]
    fn an_error_names_line_and_section() {
        let more = |text: &str| format!("{DEVICE}{text}\n");
        let without = |text: &str| DEVICE.replace(text, "");
        for (text, problem) in [
            (more("buffer = \"1 B\""), ":14: helper.buffer: from"),
            (more("listn = 1"), ":14: helper.listn: unknown key"),
            (
                more("sandbox = true"),
                ":14: helper.sandbox: belongs before",
            ),
            (
                more("[phone]"),
                ":14: phone: unknown key; allowed here are identity",
            ),
            (
                without("sandbox = false").replace("[helper]", "[[helper]]"),
                "[[primary.helper]]",
            ),
            (
                without("proxies = \"203.0.113.1:4433\"\n"),
                ": helper.proxies: missing",
            ),
            (
                without("[[primary.path]]\ninterface = \"wwan0\"\n"),
                ": primary.path: missing",
            ),
            (
                more("[primary.transparent]\n[proxy]"),
                "[primary.transparent] beside [proxy]",
            ),
            (
                "sandbox = true\n".to_owned(),
                "no section [primary], [helper] or [proxy]",
            ),
            ("[primary]\n[".to_owned(), ":2:"),
        ] {
            let (_folder, file) = written(&text);
            let error = DeviceConfig::load(&file).unwrap_err().to_string();
            assert!(error.contains(problem), "{problem}: {error}");
        }
    }

    #[test]
    fn programs_change_the_section_of_the_primary() {
        let (_folder, file) = written(DEVICE);
        let far = FarEnd::Helper {
            name: "tablet".to_owned(),
            address: "192.0.2.1:4434".parse().unwrap(),
            id: mpbond_net::DeviceId::from_bytes([8; 32]),
            interface: None,
        };
        PrimaryEdit::make(&file, &far, &[]).unwrap();
        PrimaryEdit::add_front(&file, Front::Socks5).unwrap();
        PrimaryEdit::add_links(&file, &["wwan0".to_owned(), "eth0".to_owned()]).unwrap();
        PrimaryEdit::set_on_proxy_loss(&file, OnProxyLoss::Fail).unwrap();
        assert!(PrimaryEdit::has_proxy(&file).unwrap());
        assert!(PrimaryEdit::has_on_proxy_loss(&file).unwrap());
        assert_eq!(PrimaryEdit::links(&file).unwrap(), ["wwan0", "eth0"]);
        let text = std::fs::read_to_string(&file).unwrap();
        let device = DeviceConfig::load(&file).unwrap();
        let primary = device.primary.unwrap();
        assert_eq!(primary.helpers[0].name, "tablet", "{text}");
        assert_eq!(primary.on_proxy_loss, OnProxyLoss::Fail, "{text}");
        assert!(
            primary.socks5.is_some() && text.contains("[primary.socks5]"),
            "{text}"
        );
        assert!(text.contains("[helper] # lends\n"), "{text}");
        assert_eq!(device.helper.unwrap().trust.len(), 1);
    }
}
