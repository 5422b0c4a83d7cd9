//! Text in charts: escaping, number formats and estimated widths.

/// Height of text, in the chart's units.
pub const TEXT: f64 = 12.0;

/// Escapes text for an element or attribute of SVG or HTML, since names come from files and are not
/// trusted. Control characters, which XML forbids, become spaces.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// Formats a number with up to `decimals` decimals, without trailing zeros.
pub fn number(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    if text == "-0" { "0" } else { text }.to_owned()
}

/// Estimated width of a text; renderers and fonts differ.
pub fn text_width(text: &str) -> f64 {
    text.chars()
        .map(|c| if c.is_ascii() { 0.58 } else { 1.0 } * TEXT)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_leave_its_place() {
        assert_eq!(
            escaped("<a href='x'>\u{1b}[0m & \"b\"\u{ffff}"),
            "&lt;a href=&#39;x&#39;&gt; [0m &amp; &quot;b&quot; "
        );
    }

    #[test]
    fn numbers_are_short() {
        for (value, decimals, text) in [
            (1.5, 3, "1.5"),
            (100.0, 0, "100"),
            (100.0, 3, "100"),
            (-0.0001, 3, "0"),
            (-2.25, 1, "-2.2"),
            (1234.5678, 2, "1234.57"),
        ] {
            assert_eq!(number(value, decimals), text);
        }
    }
}
