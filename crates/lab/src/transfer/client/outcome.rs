//! Result of a transfer, as seen by a client.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::subflow::Used;
use crate::error::{Error, Result};
use crate::figures::quantity::Quantity;
use crate::record::{MessageTimes, SubflowShare};

/// Result of a transfer, as seen by a client.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outcome {
    /// Bytes received.
    pub bytes: u64,
    /// Their SHA-256, in hexadecimal.
    pub sha256: String,
    /// Time of the client, in seconds.
    pub seconds: f64,
    /// Time to the first byte of the response, in seconds.
    pub first_byte_s: f64,
    /// Longest time without progress between the first and the last byte.
    pub longest_stall: Duration,
    /// Seconds since the start and bytes received by then; empty with curl.
    pub series: Vec<(f64, u64)>,
    /// Bytes of each subflow of Multipath TCP.
    pub used: Vec<Used>,
    /// Bytes of each device of COMBINE.
    pub shares: Vec<SubflowShare>,
    /// Bytes carried more than once by subflows of Multipath TCP, or by devices of COMBINE.
    pub redundant_bytes: Option<u64>,
    /// Reason why the transfer is not what its scheme says.
    pub unfit_because: Option<String>,
    /// Age of a kept connection at the start, in seconds.
    pub opened_before_s: f64,
    /// Whether all bytes were right, of an application, which compares them.
    pub intact: Option<bool>,
    /// Quantities of an application.
    pub noticed: BTreeMap<Quantity, f64>,
    /// Times of messages.
    pub messages: MessageTimes,
}

impl Outcome {
    /// Result of a transfer that broke off after this time.
    pub fn failed(after: Duration, why: &str) -> Self {
        Self {
            seconds: after.as_secs_f64(),
            unfit_because: Some(format!("it failed: {}", why.trim())),
            intact: Some(false),
            ..Self::default()
        }
    }
}

/// Callback with the number of bytes received so far.
pub(crate) type Progress<'a> = &'a mut dyn FnMut(u64);

/// Response of the origin to an upload.
#[derive(Deserialize)]
pub(crate) struct Receipt {
    /// Size of the body.
    pub bytes: u64,
    /// SHA-256 of the body, in hexadecimal.
    pub sha256: String,
}

impl Receipt {
    /// Parses the response to an upload.
    ///
    /// # Errors
    /// When it is malformed.
    pub fn read(text: &str) -> Result<Self> {
        serde_json::from_str(text.trim()).map_err(|e| {
            Error::run(format!(
                "cannot read the origin's answer to an upload ({e}): {text:?}"
            ))
        })
    }
}
