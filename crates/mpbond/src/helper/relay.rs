//! Relays: from the ticket to the last byte.

use std::sync::Arc;

use mpbond_net::pipe::PipeStream;
use mpbond_net::relay::{Relay, RelayEnd, RelayOptions};
use tracing::{debug, info, warn};

use super::budget::MonthlyBudget;
use super::lending::LentLink;
use super::promise::{Event, Kind, OpenRelay, Promised};
use super::state::{Active, Helper, add_relayed};
use crate::rate_limited_log::Line;

impl Helper {
    /// Relays between a new pipe and the HS-Path that was opened for it.
    pub(super) async fn relay(&self, pipe: PipeStream, promised: Promised) {
        let Promised {
            primary,
            proxies,
            request,
            kind,
            hs,
            control,
            ends,
            share: _share,
        } = promised;
        let hs = match hs.await {
            Ok(Ok(hs)) => hs,
            Ok(Err(e)) => {
                if let Some(line) = self.line(primary) {
                    info!(error = %e, left_out = line.left_out, "proxy not reached");
                }
                let _ = control.send(Event::Unreachable(request, e.to_string()));
                return;
            }
            // The task was aborted with the daemon.
            Err(_) => return,
        };
        // Trust may have been withdrawn while the proxy was being reached.
        if !self.trust.trusts(&primary) {
            info!(primary = primary.short(), "no longer trusted");
            return;
        }
        let express = kind == Kind::Express;
        if express
            && let Some(tcp) = pipe.tcp()
            && let Err(e) = socket2::SockRef::from(tcp).set_keepalive(false)
        {
            debug!(error = %e, "cannot switch keep-alive off");
        }
        let hs_local = hs.local_addr().ok().map(|a| a.ip());
        let reached = hs.peer_addr().ok();
        let reached = proxies.into_iter().find(|(p, _)| Some(*p) == reached);
        let Some((proxy, entry)) = reached else {
            let reason = "the connection to the proxy broke at once".to_owned();
            let _ = control.send(Event::Unreachable(request, reason));
            return;
        };
        // So may the permission to relay.
        if !self.config().lends_to(&entry, proxy) {
            if let Some(Line { left_out }) = self.line(primary) {
                info!(%proxy, left_out, "relays to this proxy are no longer allowed");
            }
            return;
        }
        self.reached.borrow_mut().worked(proxy);
        let one = self.pipe(primary, ends);
        let link = self.link.as_ref();
        let over = link
            .zip(hs_local)
            .map(|(link, hs)| link.carries(hs.to_canonical(), &pipe));
        let options = RelayOptions {
            bound_bytes: self.config().buffer_bytes,
            budget: self.budget.as_ref().map(MonthlyBudget::bytes),
            is_one_of_several: Arc::clone(&one.is_one_of_several),
            is_express: express,
            messages: Arc::clone(&one.messages),
            // The few urgent bytes of an express do not wait.
            lent: link.filter(|_| !express).map(LentLink::rate),
            ..RelayOptions::default()
        };
        let relay = match Relay::new(pipe, hs, options) {
            Ok(relay) => relay,
            Err(e) => {
                if let Some(line) = self.line(primary) {
                    warn!(error = %e, left_out = line.left_out, "cannot relay");
                }
                return;
            }
        };
        let handle = relay.handle();
        let number = self.next_relay.get();
        self.next_relay.set(number + 1);
        self.relays.borrow_mut().insert(
            number,
            Active {
                primary,
                proxy,
                entry,
                handle: handle.clone(),
                hs_local,
                pipe: one,
                over,
            },
        );
        if let Some(Line { left_out }) = self.line(primary) {
            info!(primary = primary.short(), %proxy, left_out, "relay opened");
        }
        // Where the control connection is closed already, this stops an express.
        let _ = control.send(Event::Opened(request, OpenRelay { handle, kind }));
        let end = relay.run().await;
        if let Some(Line { left_out }) = self.line(primary) {
            let primary = primary.short();
            match end {
                RelayEnd::Failed { side, error } => {
                    info!(primary, ?side, %error, left_out, "relay broke");
                }
                end => info!(primary, ?end, left_out, "relay closed"),
            }
        }
        if let Some(ended) = self.relays.borrow_mut().remove(&number) {
            let mut relayed = self.relayed.borrow_mut();
            add_relayed(&mut relayed, &ended);
        }
        let _ = control.send(Event::Closed(request));
    }
}
