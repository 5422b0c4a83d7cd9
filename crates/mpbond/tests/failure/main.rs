//! What goes wrong, with the daemons that users have: processes that die, stop and come back,
//! origins and names that fail, descriptors and disks that are used up, addresses that change.
//! docs/failure.md describes the behaviour expected of each.
//!
//! Deadlines are ten times what an idle machine needs, or more. Figures that are promised are
//! asserted as such by `mpbond_testing::is_within`.
#![allow(clippy::unwrap_used, clippy::panic)] // of tests

mod address;
mod apart;
mod api;
mod api_bad_input;
mod api_devices;
mod api_document;
mod battery;
mod budget;
mod class_dscp;
mod class_names;
mod crowd;
mod daemons;
mod default_file;
mod delivery;
mod doctor;
mod doctor_budget;
mod doctor_names;
mod doctor_packets;
mod ethernet;
mod exhaustion;
mod families;
mod forwarded;
mod fronts;
mod fronts_intercepted;
mod helper_look_ups;
mod helper_rate;
mod hotspot;
mod idle;
mod interface;
mod kill_switch;
mod link_facts;
mod link_limits;
mod locks;
mod log_flood;
mod metrics;
mod mtu;
mod mtu_helper;
mod names;
mod nat;
mod no_status;
mod old_tls;
mod origin;
mod own_addresses;
mod own_names;
mod pipe_choice;
mod pipes;
mod policy_intercepted;
mod policy_paths;
mod policy_reload;
mod policy_rules;
mod portal;
mod price;
mod proxy_addresses;
mod proxy_names;
mod reasons;
mod refusals;
mod refused_families;
mod reload;
mod reload_helper;
mod reload_intercepted;
mod restart;
mod retire;
mod retire_helper;
mod secrets;
mod silence;
mod speed;
mod speed_mtu;
mod status;
mod status_rates;
mod stray;
mod texts;
mod unix_pipes;
mod unread;
mod up;
mod upgrade;
mod upgrade_helper;
mod upgrade_refused;
mod upgrade_stop;
mod upgrade_transparent;
mod visitor;
