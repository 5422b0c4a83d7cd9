//! `/v1/devices`: the proxy, and the devices that lend their links.

use hyper::{Response, StatusCode};
use mpbond_net::DeviceId;
use serde::Serialize;

use super::Resources;
use crate::api::{Failure, json};
use crate::config::{PrimaryConfig, ProxyAddress};
use crate::http::Answer;
use crate::primary::links::modes::Mode;

/// The proxy, and the helpers.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Devices {
    devices: Vec<Device>,
}

/// Role of a device.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "DeviceRole"))]
#[serde(rename_all = "kebab-case")]
enum Role {
    /// The proxy.
    Proxy,
    /// A device that lends its link.
    Helper,
}

/// The proxy, or a helper.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Device {
    /// Its id.
    id: String,
    role: Role,
    /// Name of a helper.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Addresses at which it is reached.
    addresses: Vec<String>,
    /// Names of the links through a helper.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    links: Vec<String>,
}

/// The devices of a configuration, the proxy first.
fn devices(config: &PrimaryConfig) -> Vec<Device> {
    let mut found = vec![Device {
        id: config.proxy.id.to_string(),
        role: Role::Proxy,
        name: None,
        addresses: config
            .proxy
            .addresses
            .iter()
            .map(ProxyAddress::to_string)
            .collect(),
        links: Vec::new(),
    }];
    for helper in &config.helpers {
        let id = helper.id.to_string();
        let known = found
            .iter()
            .position(|d| d.role == Role::Helper && d.id == id);
        let address = helper.address.to_string();
        match known.and_then(|at| found.get_mut(at)) {
            Some(known) => {
                known.addresses.push(address);
                known.links.push(helper.name.clone());
            }
            None => found.push(Device {
                id,
                role: Role::Helper,
                name: Some(helper.name.clone()),
                addresses: vec![address],
                links: vec![helper.name.clone()],
            }),
        }
    }
    found
}

impl Resources {
    pub(super) fn devices(&self) -> Response<Answer> {
        let devices = self.reloader.get(devices);
        json(StatusCode::OK, &Devices { devices })
    }

    /// Takes a helper out of use, until the next reload or restart: the file cannot be written.
    pub(super) fn unpair(&self, id: &str) -> Result<Response<Answer>, Failure> {
        let id = id.parse::<DeviceId>().ok();
        let unknown = || Failure::new(StatusCode::NOT_FOUND, "no device has this id");
        let id = id.ok_or_else(unknown)?;
        let mut config = self.reloader.get(PrimaryConfig::clone);
        // A device with both roles has one id.
        let is_helper = config.helpers.iter().any(|helper| helper.id == id);
        if config.proxy.id == id && !is_helper {
            let error = "a primary has one proxy: another one is written to its file, and needs a \
                         restart";
            return Err(Failure::new(StatusCode::CONFLICT, error));
        }
        let before = config.helpers.len();
        config.helpers.retain(|helper| helper.id != id);
        if config.helpers.len() == before {
            return Err(unknown());
        }
        let paths = config.paths.iter().map(|path| &path.name);
        let mut rest = paths.chain(config.helpers.iter().map(|helper| &helper.name));
        if rest.all(|name| self.primary.modes.of(name) == Some(Mode::Off)) {
            let error = "without this device there is no link that is not off";
            return Err(Failure::new(StatusCode::CONFLICT, error));
        }
        let policy = config.policy.as_ref();
        if let Some(Err(e)) = policy.map(|policy| config.check_policy(policy)) {
            let error = format!("the policy in force needs it: {e}");
            return Err(Failure::new(StatusCode::CONFLICT, error));
        }
        self.reloader
            .change(|in_force| in_force.helpers = config.helpers);
        Ok(self.devices())
    }
}
