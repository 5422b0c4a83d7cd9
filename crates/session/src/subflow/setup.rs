//! A connection as its driver hands it to the session.

use std::time::Duration;

use crate::{DeviceLabel, HelperId, PathNumber, Role};

/// A connection as its driver hands it to the session.
#[derive(Clone, Debug)]
pub struct SubflowSetup {
    /// Name of the path or helper, for people.
    pub name: String,
    /// The helper it runs through, if any.
    pub helper: Option<HelperId>,
    /// Number of its path, by which sets of paths name it. Subflows of one pipe have the same.
    pub path: Option<PathNumber>,
    /// Label of the device that lends its link to it, if the proxy is to know.
    pub lender: Option<DeviceLabel>,
    /// Role of the subflow in the session.
    pub role: Role,
    /// Exporter of its TLS connection, which MP_JOIN's proof is bound to.
    pub exporter: [u8; 32],
    /// Ciphertext octets written to the TLS stream so far (its handshake).
    pub tx_octets: u64,
    /// Ciphertext octets read from the TLS stream so far, the hello's record included.
    pub rx_octets: u64,
    /// Octets that TLS adds to a record: 22 for TLS 1.3 with a 16-octet tag (RFC 8446, section
    /// 5.2).
    pub record_overhead: u32,
    /// Primary: idle time after which its network is not sure to remember the connection, once that
    /// has forgotten one. A PING is sent by then while streams are open and no other subflow is
    /// sure to be remembered.
    pub keep_alive: Option<Duration>,
    /// Primary: its link goes to sleep, and wakes slowly, after some seconds without anything from
    /// this end, whatever arrives (Bluetooth in Sniff mode). Feedback goes over it now and then.
    pub sleeps: bool,
}

impl Default for SubflowSetup {
    fn default() -> Self {
        Self {
            name: String::new(),
            helper: None,
            path: None,
            lender: None,
            role: Role::Regular,
            exporter: [0; 32],
            tx_octets: 0,
            rx_octets: 0,
            record_overhead: 22,
            keep_alive: None,
            sleeps: false,
        }
    }
}
