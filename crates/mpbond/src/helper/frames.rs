//! Channels over Ethernet frames (ADR 0044): sockets for them, and what is known of them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use mpbond_net::DeviceId;
use mpbond_net::l2::{FrameSockets, L2Handle};
use tokio::time::Instant;
use tracing::warn;

use crate::config::HelperConfig;
use crate::quota::Quota;
use crate::status::EthernetStatus;

/// Channels at a time, in all and for each primary: those of earlier relays that still end
/// included.
const MAX_CHANNELS: usize = 32;
pub(super) const MAX_CHANNELS_EACH: usize = 16;

/// Time after a failure for which a primary is refused another channel on the same interface.
const PAUSE: Duration = Duration::from_secs(10);

/// Sockets for channels, and their use.
pub(super) struct Frames {
    /// Opened at the start; `None` without `ethernet_frames`.
    pub(super) sockets: Option<Result<FrameSockets, String>>,
    pub(super) quota: Quota<DeviceId>,
    /// Channels by primary and number.
    pub(super) open: RefCell<HashMap<(DeviceId, u32), L2Handle>>,
    /// The last failure of each primary's channels on an interface: of as many as are or were
    /// trusted.
    pub(super) failed: RefCell<HashMap<(DeviceId, String), (String, Instant)>>,
}

impl Frames {
    /// Opens the sockets, which only a process with CAP_NET_RAW may.
    pub(super) fn new(config: &HelperConfig) -> Self {
        let open = || FrameSockets::open(MAX_CHANNELS).map_err(|e| e.to_string());
        let sockets = config.ethernet_frames.then(open);
        if let Some(Err(reason)) = &sockets {
            warn!("{reason}");
        }
        Self {
            sockets,
            quota: Quota::new(MAX_CHANNELS, MAX_CHANNELS_EACH),
            open: RefCell::default(),
            failed: RefCell::default(),
        }
    }

    /// For status; `None` without `ethernet_frames`.
    pub(super) fn status(&self) -> Option<EthernetStatus> {
        let sockets = self.sockets.as_ref()?;
        Some(EthernetStatus {
            used: !self.open.borrow().is_empty(),
            reason: sockets.as_ref().err().cloned(),
        })
    }

    /// The reason of a failure of a primary's channels on an interface a short time ago.
    pub(super) fn refusal(&self, primary: DeviceId, interface: &str) -> Option<String> {
        let failed = self.failed.borrow();
        let (reason, at) = failed.get(&(primary, interface.to_owned()))?;
        (at.elapsed() < PAUSE).then(|| reason.clone())
    }
}
