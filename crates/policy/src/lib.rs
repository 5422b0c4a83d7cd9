//! Policies: rules for new flows; caps, batteries, costs and lending of links.
//!
//! A [`Policy`] is read from TOML, whole or not at all; docs/policy.md describes the language.
//! [`Policy::decide`] finds the rule of a flow, [`Policy::judge`] the links that the flow may use,
//! and [`Policy::explain`] the reasons of both.
//!
//! ```
//! use std::path::Path;
//!
//! let text = r#"
//!     [[rule]]
//!     name = "calls"
//!     domain = "*.zoom.us"
//!     set = { class = "interactive", multipath = "handover" }
//! "#;
//! let zones = |_: &str| None;
//! let policy = mpbond_policy::Policy::parse(Path::new("policy.toml"), text, &zones);
//! assert!(policy.is_ok());
//! let unknown = text.replace("domain", "site");
//! let error = mpbond_policy::Policy::parse(Path::new("policy.toml"), &unknown, &zones);
//! assert!(error.unwrap_err().to_string().starts_with("policy.toml:4: rule.site: unknown key"));
//! ```
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods)] // pure: no clock

mod application;
mod battery;
mod cap;
mod check;
mod condition;
mod decide;
mod effect;
mod explain;
mod fact;
mod file;
mod flow;
pub mod lending;
mod links;
mod mode;
mod policy;
mod reader;
mod rule;
mod treatment;
mod value;

pub use application::application_of;
pub use battery::{Battery, Charge};
pub use cap::{
    Account, AtCap, Cap, CapEvent, InterfaceCounter, Period, Reading, Reservation, period_at,
};
pub use condition::DomainName;
pub use decide::{Carriage, Decision, Origin, RuleName, Verdict};
pub use explain::{Change, Explanation, FactLine, Handling, LinkLine, Measured, RuleLine, changes};
pub use fact::{Certainty, Fact};
pub use flow::{Claim, Device, Flow, LinkState};
pub use links::{Admission, LinkUse, Phase, Rank, Refusal, Unusable};
pub use mode::{Mode, Supply};
pub use policy::{LinkPolicy, Policy};
pub use reader::{MAX_FILE_BYTES, MAX_LINKS, MAX_RULES, Zones};
pub use treatment::{Class, Multipath, Paths, Permission};
