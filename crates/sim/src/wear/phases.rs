//! Phases of a handover that follows the loss of Bluetooth (Wear OS paper, section 6.3).

use std::time::Duration;

use mpbond_units::Timestamp;

/// Instants between the phases.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Phases {
    /// Bluetooth's signal is too weak for any packet.
    pub(super) silent: Option<Timestamp>,
    /// Bluetooth is lost.
    pub(super) lost: Option<Timestamp>,
    /// WiFi is switched on.
    pub(super) on: Option<Timestamp>,
    /// The watch has joined it.
    pub(super) joined: Option<Timestamp>,
    /// The first bytes have arrived over it.
    pub(super) resumed: Option<Timestamp>,
}

impl Phases {
    /// Lengths of P1 to P4, if all have passed: `None` where WiFi was on before the loss.
    pub(super) fn lengths(&self) -> Option<[Duration; 4]> {
        let [silent, lost, on] = [self.silent?, self.lost?, self.on?];
        let [joined, resumed] = [self.joined?, self.resumed?];
        (on >= lost).then(|| {
            [
                lost.since(silent),
                on.since(lost),
                joined.since(on),
                resumed.since(joined),
            ]
        })
    }
}
