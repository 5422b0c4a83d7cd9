//! Target for messages of the kernel about devices.

use mpbond::uevents::subsystem;

const KEY: &[u8] = b"SUBSYSTEM=";

/// A message. Its subsystem must be that of the reader below, which shares no code with the
/// product, and must not depend on what follows the message.
pub fn uevent(octets: &[u8]) {
    let found = subsystem(octets);
    assert_eq!(found, read(octets), "two readers of one message");
    if let Some(found) = found {
        let longer = [octets, b"SUBSYSTEM=other\0"].concat();
        assert_eq!(subsystem(&longer), Some(found), "octets after the message");
    }
}

/// The first variable of this key behind the first text, which must have an `@`.
fn read(octets: &[u8]) -> Option<&[u8]> {
    let (mut at, mut texts) = (0, 0);
    for (end, _) in octets.iter().enumerate().filter(|(_, octet)| **octet == 0) {
        let text = octets.get(at..end)?;
        if texts == 0 && !text.contains(&b'@') {
            return None;
        }
        if texts > 0 && text.starts_with(KEY) {
            return text.get(KEY.len()..);
        }
        (at, texts) = (end + 1, texts + 1);
    }
    None
}
