//! The tables of `docs/protocol.md` against the code.

use std::fmt::Debug;

use crate::wire::fields::FieldId;
use crate::wire::*;
use crate::{CloseCode, ResetCode};

const DOCUMENT: &str = include_str!("../../../../../docs/protocol.md");

/// The cells of the first table whose header begins with `header`, below the heading.
fn table(heading: &str, header: &str) -> Vec<Vec<&'static str>> {
    let (_, section) = DOCUMENT
        .split_once(&format!("\n{heading}\n"))
        .expect(heading);
    let mut lines = section.lines().skip_while(|l| !l.starts_with(header));
    assert!(lines.next().is_some(), "{heading}: no table {header}");
    let rows = lines.skip(1).take_while(|l| l.starts_with('|'));
    let cells = |l: &'static str| l.trim_matches('|').split('|').map(str::trim).collect();
    rows.map(cells).collect()
}

fn number(hex: &str) -> u64 {
    u64::from_str_radix(hex.strip_prefix("0x").expect(hex), 16).expect(hex)
}

/// `UnknownSession` as `UNKNOWN_SESSION`.
fn shouted(code: impl Debug) -> String {
    let mut out = String::new();
    for c in format!("{code:?}").chars() {
        if c.is_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(c.to_ascii_uppercase());
    }
    out
}

#[test]
fn frame_types_are_those_of_the_code() {
    let rows = table("### Frame types", "| type | name |");
    let in_text: Vec<_> = rows
        .iter()
        .map(|r| (FrameType(number(r[0]) as u8), r[1]))
        .collect();
    assert_eq!(in_text, FrameType::KNOWN);
    for row in &rows {
        let elicits = FrameType(number(row[0]) as u8).elicits_ack();
        assert_eq!(row[5], if elicits { "yes" } else { "no" }, "{row:?}");
    }
}

#[test]
fn reserved_types_are_not_in_use() {
    for row in table("### Reserved types", "| type | name |") {
        for number in row[0].split(" to ").flat_map(|r| r.split(", ")).map(number) {
            let kind = FrameType(number as u8);
            assert!(!FrameTypes::READ.contains(kind), "{row:?}");
            // Frames that are sent again have to elicit an ACK.
            if row[2].ends_with("; resent") {
                assert!(kind.elicits_ack(), "{row:?}");
            }
        }
    }
}

#[test]
fn fields_are_those_of_the_code() {
    let rows = table("### Field registry", "| id | name |");
    let in_text: Vec<_> = rows.iter().map(|r| (FieldId(number(r[0])), r[1])).collect();
    assert_eq!(in_text, FieldId::KNOWN);
}

#[test]
fn codes_are_those_of_the_code() {
    let in_text = |heading| -> Vec<(u16, String)> {
        let rows = table(heading, "| code | name |");
        rows.iter()
            .map(|r| (r[0].parse().expect(r[0]), r[1].to_owned()))
            .collect()
    };
    let close = (0..=u16::MAX).map(|n| (n, CloseCode::from_wire(n)));
    let close = close.filter(|(_, code)| !matches!(code, CloseCode::Other(_)));
    let close: Vec<_> = close.map(|(n, code)| (n, shouted(code))).collect();
    assert_eq!(in_text("### Close codes"), close);
    let reset = (0..=u16::MAX).map(|n| (n, ResetCode::from_wire(n)));
    let reset = reset.filter(|(_, code)| !matches!(code, ResetCode::Other(_)));
    let reset: Vec<_> = reset.map(|(n, code)| (n, shouted(code))).collect();
    assert_eq!(in_text("### Reset codes"), reset);
}

#[test]
fn limits_are_those_of_the_code() {
    let in_text: Vec<_> = table("## 13. Limits", "| constant | value |")
        .iter()
        .map(|r| (r[0], r[1].parse().expect(r[1])))
        .collect();
    let in_code = [
        ("MAX_RECORD_BYTES", MAX_RECORD_BYTES),
        ("MAX_HOST_BYTES", MAX_HOST_BYTES),
        ("MAX_NAME_BYTES", MAX_NAME_BYTES),
        ("MAX_REASON_BYTES", MAX_REASON_BYTES),
        ("MAX_ACK_COUNTS", MAX_ACK_COUNTS),
        ("MAX_FIELDS", MAX_FIELDS),
        ("MAX_FIELD_BYTES", MAX_FIELD_BYTES),
    ];
    assert_eq!(in_text, in_code);
}

/// Version, ALPN and labels have one number.
#[test]
fn the_version_is_that_of_the_code() {
    assert!(DOCUMENT.starts_with(&format!("# The session protocol, version {VERSION}\n")));
    let exporter = std::str::from_utf8(crate::EXPORTER).expect("ASCII");
    assert!(DOCUMENT.contains(&format!("TLS-Exporter(\"{exporter}\", \"\", 32)")));
}
