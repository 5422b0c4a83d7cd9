//! Helpers of a primary that runs: one more, and as text for its file.

use mpbond_net::DeviceId;
use toml_edit::Value;

use super::primary::{HelperAddress, HelperRef, PrimaryConfig};
use super::primary_far_end::FarEnd;
use super::primary_file::MAX_LINKS;
use super::primary_helpers::numbered;

impl PrimaryConfig {
    /// Adds a helper, unless the device is one already; whether it did.
    ///
    /// # Errors
    /// The reason why it cannot be added.
    pub(crate) fn add_helper(&mut self, far: &FarEnd) -> Result<bool, String> {
        let FarEnd::Helper {
            name,
            address,
            id,
            interface,
        } = far
        else {
            return Err("a primary has one proxy: another one needs a restart".to_owned());
        };
        let at = HelperAddress::At(address.clone());
        let mut known = self.helpers.iter().filter(|h| h.id == *id).peekable();
        if let Some(first) = known.peek() {
            let before = &first.address;
            let problem = format!(
                "this device is a helper already, at {before}: change its address to {at} in the file"
            );
            let is_known = known.any(|helper| helper.address == at);
            return is_known.then_some(false).ok_or(problem);
        }
        if self.paths.len() + self.helpers.len() >= MAX_LINKS {
            return Err(format!("at most {MAX_LINKS} paths and pipes to helpers"));
        }
        let is_taken = |name: &String| {
            let mut paths = self.paths.iter().map(|path| &path.name);
            paths.any(|taken| taken == name) || self.helpers.iter().any(|h| h.name == *name)
        };
        let mut names = (1..).map(|number| numbered(name, number));
        self.helpers.push(HelperRef {
            name: names.find(|name| !is_taken(name)).unwrap_or_default(),
            address: at,
            id: *id,
            interface: interface.clone(),
            source: None,
            backup: false,
            place: None,
            ethernet_frames: false,
            by_app: false,
            radios: None,
        });
        Ok(true)
    }

    /// The sections of a device, with this header, as a person would write them.
    pub(crate) fn helper_sections(&self, id: &DeviceId, header: &str) -> String {
        let quoted = |text: &str| Value::from(text).to_string();
        let section = |helper: &HelperRef| {
            let interface = helper.interface.as_deref();
            let interface = interface.map(|name| format!("interface = {}\n", quoted(name)));
            format!(
                "[[{header}]]\nname = {}\naddress = {}\nid = \"{id}\"\n{}",
                quoted(&helper.name),
                quoted(&helper.address.to_string()),
                interface.unwrap_or_default()
            )
        };
        let helpers = self.helpers.iter().filter(|helper| helper.id == *id);
        helpers.map(section).collect()
    }
}
