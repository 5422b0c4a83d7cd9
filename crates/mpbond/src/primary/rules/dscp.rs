//! Traffic classes of differentiated services code points: RFC 4594, section 2.3 (service classes),
//! RFC 8622 (LE), and the values that programs set in practice.

use mpbond_policy::Class;

/// The class of a code point. Those without a row here, the default among them, are `bulk`.
pub(super) fn class(dscp: u8) -> Class {
    match dscp {
        // LE; CS1, which programs used for the same purpose before; the bit "throughput" of RFC
        // 1349, section 3. OpenSSH has CS1 for copies, and "throughput" as Debian builds it.
        1 | 8 | 2 => Class::Background,
        // Low-latency data AF21 to AF23; OAM CS2; network control CS6, CS7; the bit "lowdelay" of
        // RFC 1349, section 3. OpenSSH has AF21 or "lowdelay" for terminals.
        4 | 18 | 20 | 22 | 16 | 48 | 56 => Class::Interactive,
        // Real-time interactive CS4, multimedia conferencing AF41 to AF43, signalling CS5,
        // telephony VOICE-ADMIT and EF.
        32 | 34 | 36 | 38 | 40 | 44 | 46 => Class::Realtime,
        _ => Class::Bulk,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primary::rules::classes::stream;

    const DOCUMENT: &str = include_str!("../../../../../docs/traffic-classes.md");

    /// Number of a code point by its name in RFC 4594, RFC 5865 or RFC 8622.
    fn number(name: &str) -> u8 {
        let digit = |at: usize| name.as_bytes()[at] - b'0';
        match name {
            "LE" => 1,
            "EF" => 46,
            "VOICE-ADMIT" => 44,
            _ if name.starts_with("CS") => 8 * digit(2),
            _ if name.starts_with("AF") => 8 * digit(2) + 2 * digit(3),
            _ => name.parse().unwrap(),
        }
    }

    #[test]
    fn the_table_of_the_document_is_that_of_the_code() {
        let mut listed = Vec::new();
        let (_, text) = DOCUMENT.split_once("| class | DSCP |").unwrap();
        for row in text.lines().skip(2).take_while(|l| l.starts_with('|')) {
            let mut cells = row.trim_matches('|').split('|').map(str::trim);
            let (of, names) = (cells.next().unwrap(), cells.next().unwrap());
            for name in names.split(", ").filter(|name| *name != "all others") {
                let name = name.split(' ').next().unwrap();
                assert_eq!(
                    stream(class(number(name))).name(),
                    of.trim_matches('`'),
                    "{name}"
                );
                listed.push(number(name));
            }
        }
        for other in (0..64).filter(|n| !listed.contains(n)) {
            assert_eq!(class(other), Class::Bulk, "{other}");
        }
        assert_eq!(listed.len(), 17);
    }
}
