//! Socket options of daemons.

use super::line::endpoint_lowat_bytes;
use crate::relay::Relay;
use crate::tcp::Config;

/// Part of a helper's bound that may be in the socket that it reads from.
const RELAY_RECEIVE_BYTES: u64 = 1 << 20;

/// TCP of a primary or proxy.
pub(super) fn endpoint_config() -> Config {
    Config {
        notsent_lowat_bytes: endpoint_lowat_bytes(),
        ..Config::default()
    }
}

/// TCP of a helper that holds up to `bound` bytes in a direction.
pub(super) fn helper_config(bound: u64) -> Config {
    Config {
        notsent_lowat_bytes: bound / 4,
        recv_buffer_bytes: RELAY_RECEIVE_BYTES.min(bound / 4),
        ..Config::default()
    }
}

/// The relay of a helper that holds up to `bound` bytes in a direction, those in its sockets
/// included.
pub(super) fn relay(bound: u64) -> Relay {
    Relay::new(bound.saturating_sub(RELAY_RECEIVE_BYTES.min(bound / 4)))
}
