//! What the three daemons are told by their TOML files.

mod helper;
mod primary;
mod proxy;

pub use helper::{HelperConfig, Uplink};
pub use primary::{
    FrontAddress, HelperRef, Ipv6Policy, OnProxyLoss, PathConfig, PrimaryConfig, ProxyRef,
    Transparent, TransparentMode, UdpPolicy,
};
pub use proxy::{Destinations, ProxyConfig};
