//! Measurements of the pipe: connections of a primary that end here, on its request.

use mpbond_net::DeviceId;
use mpbond_net::control::{Direction, Message, RefusalCode, RequestId};
use tokio::net::TcpStream;
use tracing::info;

use super::promise::{Measurement, Promise};
use super::state::Helper;
use crate::speed::measured_pipe;

impl Helper {
    /// Issues a ticket for a measurement. It takes nothing of the uplink or of the budget.
    pub(super) fn promise_measurement(
        &self,
        primary: DeviceId,
        request: RequestId,
        direction: Direction,
    ) -> Message {
        let refused = |code, reason: &str| Message::Refused {
            request,
            code,
            reason: reason.to_owned(),
        };
        if !self.config().enabled {
            return refused(RefusalCode::SwitchedOff, "lending is switched off");
        }
        let now = std::time::Instant::now().into();
        // Those whose ticket was not used in time no longer count.
        self.tickets.borrow_mut().expire(now);
        let Ok(share) = self.measurement_quota.take(primary) else {
            return refused(RefusalCode::TooMany, "too many measurements at a time");
        };
        let promised = Promise::Measurement(Measurement {
            primary,
            direction,
            share,
        });
        match self.tickets.borrow_mut().issue(promised, now) {
            Some(ticket) => Message::Relay { request, ticket },
            None => refused(
                RefusalCode::TooMany,
                "too many tickets are waiting to be used",
            ),
        }
    }

    /// Serves a measurement until it ends or is no longer allowed.
    pub(super) async fn measure(&self, pipe: TcpStream, measurement: Measurement) {
        let Measurement {
            primary,
            direction,
            // Held until the measurement ends.
            share: _share,
        } = measurement;
        if let Some(line) = self.line(primary) {
            info!(
                primary = primary.short(),
                ?direction,
                left_out = line.left_out,
                "the pipe is measured"
            );
        }
        let mut permissions = self.permissions.subscribe();
        let forbidden = async {
            while self.trust.trusts(&primary) && self.config().enabled {
                if permissions.changed().await.is_err() {
                    return;
                }
            }
            let primary = primary.short();
            info!(primary, "the measurement is no longer allowed");
        };
        tokio::select! {
            biased;
            () = forbidden => {}
            () = measured_pipe(pipe, direction) => {}
        }
    }
}
