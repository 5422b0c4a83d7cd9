//! A handshake with the smallest segments beside one that stalls: its flights, of some 1000 octets,
//! do not pass where only smaller packets do (an MTU black hole, RFC 2923, section 2.1).

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use mpbond_manager::SEGMENT_BYTES;
use mpbond_net::tls::TlsError;
use tokio::time::sleep;

/// Time after which a handshake is accompanied by another one. TCP has sent lost segments twice
/// more by then, after 1 s and 2 s (RFC 6298, sections 2 and 5.5).
const STALLED_AFTER: Duration = Duration::from_secs(3);

/// Result of a handshake.
#[derive(Debug)]
pub(super) struct Passed<T> {
    /// The connection.
    pub(super) connection: T,
    /// Whether only the smallest segments pass.
    pub(super) least: bool,
}

/// Waits for `usual`, a handshake with segments of at most `limit`; has `least` make another one
/// where it stalls. The latter counts only when the former has failed at its deadline: after most
/// outages, or at a proxy that was stopped, both come through. After an outage of some 6 s the
/// latter can pass alone, since its retransmissions come at other times.
pub(super) async fn pass<T>(
    limit: Option<u32>,
    usual: impl Future<Output = Result<T, TlsError>>,
    least: impl AsyncFnOnce(u32) -> Option<T>,
) -> Result<Passed<T>, TlsError> {
    let [.., bytes] = SEGMENT_BYTES;
    let least = async {
        if limit.is_some_and(|limit| limit <= bytes) {
            return None;
        }
        sleep(STALLED_AFTER).await;
        least(bytes).await
    };
    let (mut usual, mut least) = (pin!(usual), pin!(least));
    let mut other = None;
    let mut is_over = false;
    loop {
        tokio::select! {
            biased;
            done = &mut usual => {
                let (connection, least) = match (done, other) {
                    (Err(TlsError::Deadline), Some(connection)) => (connection, true),
                    (done, _) => (done?, false),
                };
                return Ok(Passed { connection, least });
            }
            done = &mut least, if !is_over => {
                is_over = true;
                other = done;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    const WITHIN: Duration = Duration::from_secs(10);

    /// The result of two handshakes that take so long, and the time that it takes.
    async fn result(
        limit: Option<u32>,
        usual_ms: u64,
        least_ms: u64,
    ) -> (Result<bool, TlsError>, u128) {
        let began = Instant::now();
        let usual = async {
            let took = Duration::from_millis(usual_ms);
            sleep(took.min(WITHIN)).await;
            if took < WITHIN {
                Ok("usual")
            } else {
                Err(TlsError::Deadline)
            }
        };
        let least = async |bytes| {
            assert_eq!(bytes, 536);
            sleep(Duration::from_millis(least_ms)).await;
            Some("least")
        };
        let passed = pass(limit, usual, least).await;
        let least = passed.map(|p| {
            assert_eq!(p.connection == "least", p.least);
            p.least
        });
        (least, began.elapsed().as_millis())
    }

    #[tokio::test(start_paused = true)]
    async fn the_smallest_segments_count_only_where_others_do_not_pass_in_time() {
        let passed = Some;
        for (limit, usual, least, expected, took) in [
            // The usual case, and one that is slow, or at a proxy that goes on after a while.
            (None, 200, 100, passed(false), 200),
            (None, 5_000, 100, passed(false), 5_000),
            (None, 10_000, 100, passed(true), 10_000),
            (Some(1_220), 10_000, 100, passed(true), 10_000),
            // Neither passes.
            (None, 10_000, 8_000, None, 10_000),
            // There are no smaller ones.
            (Some(536), 10_000, 100, None, 10_000),
        ] {
            let (result, after) = result(limit, usual, least).await;
            assert_eq!((result.ok(), after), (expected, took), "{limit:?}, {usual}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_other_than_the_deadline_is_the_result() {
        let usual = async {
            sleep(Duration::from_secs(4)).await;
            Err(TlsError::WrongProtocol)
        };
        let failed = pass(None, usual, async |_| Some(())).await;
        assert!(matches!(failed, Err(TlsError::WrongProtocol)), "{failed:?}");
    }
}
