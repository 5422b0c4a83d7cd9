//! Facts of a flow and of the device, on which rules depend.

use std::collections::BTreeSet;
use std::net::IpAddr;

use jiff::Timestamp;

use crate::battery::Charge;
use crate::condition::DomainName;
use crate::fact::Fact;
use crate::treatment::{Class, Multipath};

/// Facts of a new flow of an application.
#[derive(Clone, Debug)]
pub struct Flow {
    /// The application; see [`application_of`](crate::application_of).
    pub app: Fact<String>,
    /// User id of the socket.
    pub uid: Fact<u32>,
    /// Path of the socket's control group below the root of its hierarchy.
    pub cgroup: Fact<String>,
    /// Differentiated services code point of the socket.
    pub dscp: Fact<u8>,
    /// Names of the destination: the one that the client states, or, as a guess, the one in its
    /// ClientHello.
    pub domain: Fact<Vec<DomainName>>,
    /// Address of the destination; unknown where the client names a domain.
    pub ip: Fact<IpAddr>,
    /// Port of the destination.
    pub port: u16,
    /// Address of the client.
    pub source: Fact<IpAddr>,
    /// Properties claimed by the application.
    pub claim: Claim,
}

/// Properties of a flow that its application claims. A rule's values take precedence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// The class.
    pub class: Option<Class>,
    /// The use of several paths.
    pub multipath: Option<Multipath>,
}

/// Facts of the device.
#[derive(Clone, Debug)]
pub struct Device {
    /// The present time.
    pub now: Fact<Timestamp>,
    /// Level of the battery in percent.
    pub battery: Fact<u8>,
    /// Whether the battery is being charged.
    pub charging: Fact<bool>,
    /// Own links and helpers.
    pub links: Vec<LinkState>,
    /// Names of the rules whose budgets are used up.
    pub spent_budgets: BTreeSet<String>,
}

/// State of an own link, or of a helper.
#[derive(Clone, Debug)]
pub struct LinkState {
    /// Its name in the configuration.
    pub name: String,
    /// Whether it can carry data.
    pub works: bool,
    /// Whether its data is charged by volume. A value in the policy takes precedence.
    pub metered: Fact<bool>,
    /// Whether it is served by another network than the user's own. A link without a subscription,
    /// such as WiFi, is known not to roam.
    pub roaming: Fact<bool>,
    /// The battery of its device, compared with the floor of this link.
    pub charge: Charge,
    /// Whether its cap is used up.
    pub cap_reached: bool,
    /// Whether its signal is weak, compared with the threshold of this link.
    pub is_weak: bool,
}
