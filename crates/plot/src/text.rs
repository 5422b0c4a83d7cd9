//! Text in charts: escaping, number formats, estimated widths, lines that fit.

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

/// Lines that fit, of whole words where possible: a word that fits in no line, such as a path, is
/// divided.
pub(crate) fn wrapped(text: &str, fits: impl Fn(&str) -> bool) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split(' ') {
        let longer = format!("{line} {word}");
        if !line.is_empty() && fits(&longer) {
            line = longer;
            continue;
        }
        lines.push(std::mem::replace(&mut line, word.to_owned()));
        while !fits(&line) {
            let ends = line.char_indices().map(|(at, _)| at).skip(1);
            let Some(end) = ends.take_while(|end| fits(&line[..*end])).last() else {
                break;
            };
            let rest = line.split_off(end);
            lines.push(std::mem::replace(&mut line, rest));
        }
    }
    lines.push(line);
    lines.retain(|line| !line.is_empty());
    lines
}

/// A text that is not wider than `width`: its beginning and an ellipsis where it is wider.
pub fn cut_to(text: &str, width: f64) -> String {
    if text_width(text) <= width {
        return text.to_owned();
    }
    let ends = text.char_indices().map(|(at, _)| at);
    let cut = |end| format!("{}…", text.get(..end).unwrap_or_default().trim_end());
    let fits = ends.map(cut).take_while(|cut| text_width(cut) <= width);
    fits.last().unwrap_or_else(|| "…".to_owned())
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
    fn a_wide_text_is_cut_and_marked() {
        assert_eq!(cut_to("short", 100.0), "short");
        let cut = cut_to("a name of many words", 100.0);
        assert!(cut.ends_with('…') && text_width(&cut) <= 100.0, "{cut}");
        assert_eq!(cut_to("wide", 1.0), "…");
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
