//! Segments of a size that passes, as the primary that runs finds it (an MTU black hole, RFC 2923,
//! section 2.1).

use mpbond_manager::SEGMENT_BYTES;
use mpbond_net::tls::TlsError;

use super::links::Links;
use super::rate::{Rates, Stuck};

/// Measures and, where only small packets seem to pass, measures again with smaller segments. When
/// these do not help, the first result counts.
pub(super) async fn that_pass(
    links: &Links<'_>,
    measure: impl AsyncFn(&Links<'_>) -> anyhow::Result<Rates>,
) -> anyhow::Result<Rates> {
    let first = measure(links).await;
    let smaller = match &first {
        // A handshake's flights fit into segments of 1220 octets: only smaller ones can help.
        Err(e) if matches!(e.downcast_ref(), Some(TlsError::Deadline)) => &SEGMENT_BYTES[1..],
        Err(e) if e.is::<Stuck>() => &SEGMENT_BYTES[..],
        _ => return first,
    };
    for bytes in smaller {
        let links = Links::new(links.config, links.identity).with_max_segment_bytes(*bytes);
        if let Ok(rates) = measure(&links).await {
            return Ok(Rates {
                max_segment_bytes: Some(*bytes),
                ..rates
            });
        }
    }
    first
}
