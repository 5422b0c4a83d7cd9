//! The proxy's side of an enrolment.

use std::time::{SystemTime, UNIX_EPOCH};

use mpbond_net::pairing::{Message, PairingError, StopReason};
use mpbond_net::tls::{TlsStream, Trust};
use tracing::info;

use super::conversation::{hear, part, say};
use crate::config::{EnrolmentBook, TokenProblem, TrustFile, TrustedDevice};

/// Current time in seconds since 1970, the clock of tokens.
pub fn now_s() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| d.as_secs())
}

/// A proxy's answer to a device that presents a token.
pub(crate) async fn serve(
    mut tls: TlsStream,
    book: &EnrolmentBook,
    file: &TrustFile,
    trust: &dyn Trust,
) -> anyhow::Result<()> {
    let device = tls.peer_id();
    let (secret, name) = match hear(&mut tls).await {
        Ok(Message::Enrol { secret, name }) => (secret, name),
        Ok(_) => {
            end(&mut tls, StopReason::Protocol).await;
            return Err(PairingError::OutOfTurn.into());
        }
        Err(e) => {
            end(&mut tls, StopReason::Protocol).await;
            return Err(e.into());
        }
    };
    // Used first, trusted afterwards: a failure in between never gives a token an additional use.
    let (own, hash) = (book.clone(), secret.hash());
    let is_trusted = trust.trusts(&device);
    let redeemed = aside(move || own.redeem(&hash, is_trusted, now_s())).await?;
    let for_whom = match redeemed {
        Ok(Ok(for_whom)) => for_whom,
        Ok(Err(problem)) => {
            let reason = match problem {
                TokenProblem::Unknown => StopReason::TokenUnknown,
                TokenProblem::Expired | TokenProblem::Early => StopReason::TokenExpired,
                TokenProblem::Used => StopReason::TokenUsed,
            };
            end(&mut tls, reason).await;
            anyhow::bail!("enrolment of {device} refused: {problem}");
        }
        Err(e) => {
            end(&mut tls, StopReason::NotStored).await;
            return Err(e.into());
        }
    };
    if !is_trusted {
        let name = if for_whom.is_empty() { name } else { for_whom };
        let (own, trusted) = (file.clone(), name.clone());
        let added = aside(move || {
            let (id, name) = (device, trusted);
            own.add(&TrustedDevice { id, name })
        });
        if let Err(e) = added.await? {
            end(&mut tls, StopReason::NotStored).await;
            return Err(e.into());
        }
        info!(device = %device, name, "trusted by an enrolment token");
    }
    say(&mut tls, &Message::Enrolled.encode()).await?;
    part(&mut tls).await;
    Ok(())
}

/// Runs what waits for a lock on a thread of its own, so that nobody else waits for it.
async fn aside<T: Send + 'static>(part: impl FnOnce() -> T + Send + 'static) -> anyhow::Result<T> {
    Ok(tokio::task::spawn_blocking(part).await?)
}

async fn end(tls: &mut TlsStream, reason: StopReason) {
    if say(tls, &Message::Stop(reason).encode()).await.is_ok() {
        part(tls).await;
    }
}
