//! Text from peers in a form that is safe to show on a terminal, on one line.

/// Whether a character is visible and does not affect the display of others: neither a control
/// character, nor a line separator, a bidirectional control or a zero-width character.
pub fn is_printable(c: char) -> bool {
    let invisible = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}');
    !c.is_control() && !invisible
}

/// `text` cut to `max_bytes`, with U+FFFD in place of every character that is not printable.
pub fn printable(text: &str, max_bytes: usize) -> String {
    let mut out = String::new();
    for c in text.chars() {
        let c = if is_printable(c) { c } else { '\u{fffd}' };
        if out.len() + c.len_utf8() > max_bytes {
            break;
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_and_invisible_characters_are_replaced() {
        assert_eq!(printable("grün 7 ok", 64), "grün 7 ok");
        assert_eq!(printable("\u{1b}[2Ja\nb\u{202e}c\u{9b}", 64), "�[2Ja�b�c�");
        assert_eq!(printable("üü", 3), "ü");
        assert_eq!(printable("\n", 2), "");
        let once = printable("a\u{7}b", 64);
        assert_eq!(printable(&once, 64), once);
    }
}
