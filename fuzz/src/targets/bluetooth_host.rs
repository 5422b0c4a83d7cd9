//! Input of `mpbond-bluetooth`: events of a controller, files of BlueZ, answers of a primary's API.

use mpbond_bluetooth::parsers;

/// Longest name that is shown.
const MAX_NAME_CHARS: usize = 60;

/// Octets as an event about the connection whose handle is in its place, as one about another, as
/// BlueZ's file about a device, and as the beginning of an answer.
pub fn bluetooth_host(octets: &[u8]) {
    let handle = match octets {
        [_, _, _, _, _, _, _, low, high, ..] => u16::from_le_bytes([*low, *high]),
        _ => 0,
    };
    let about = parsers::answer(octets, handle);
    assert!(about.is_none() || octets.len() >= 10, "{about:?}");
    assert!(parsers::answer(octets, !handle).is_none());
    let text = String::from_utf8_lossy(octets);
    if let Some(name) = parsers::bonded_name(&text) {
        assert!(name.chars().count() <= MAX_NAME_CHARS);
        assert!(!name.chars().any(char::is_control), "{name:?}");
    }
    if let Some(status) = parsers::status(&text) {
        assert!(status <= 999 && text.starts_with("HTTP/1.1 "), "{status}");
    }
}
