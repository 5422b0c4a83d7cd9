//! Socket options of daemons.

use super::line::endpoint_lowat_bytes;
use crate::relay::Relay;
use crate::tcp::Config;

/// Part of a helper's bound that may be in the socket that it reads from: the window of a receive
/// buffer of three quarters of the bound, which holds the kernel's bookkeeping as well.
fn relay_receive_bytes(bound: u64) -> u64 {
    bound / 2
}

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
        recv_buffer_bytes: relay_receive_bytes(bound),
        ..Config::default()
    }
}

/// The relay of a helper that holds up to `bound` bytes in a direction, those in its sockets
/// included.
pub(super) fn relay(bound: u64) -> Relay {
    Relay::new(bound - relay_receive_bytes(bound))
}
