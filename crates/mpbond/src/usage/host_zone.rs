//! Time zone of this host.

use std::fs::File;
use std::io::{self, Read as _};

use jiff::tz::TimeZone;

/// A link to a file of the time zone database, or its copy (localtime(5)).
const FILE: &str = "/etc/localtime";

/// Maximum size of such a file in bytes; the largest ones have 4 kB.
const MAX_BYTES: u64 = 64 << 10;

/// The zone of this host, as /etc/localtime has it now; UTC if there is none, as localtime(5) says.
pub(super) fn read() -> TimeZone {
    let read = || -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(FILE)?.take(MAX_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let zone = read()
        .ok()
        .and_then(|bytes| TimeZone::tzif("", &bytes).ok());
    zone.unwrap_or(TimeZone::UTC)
}
