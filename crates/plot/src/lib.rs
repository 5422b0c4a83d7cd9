//! What all pictures share. Each crate draws its own, as SVG; how text is escaped, where ticks lie
//! and how a number is written is the same in all of them.
#![forbid(unsafe_code)]

/// Text inside an element or an attribute of SVG or HTML: names come from files and may hold
/// anything. Control characters, which XML forbids, become spaces.
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

/// The beginning of a picture: its title, for readers and for screen readers, above `left`. It ends
/// with `</svg>`.
pub fn frame(width: f64, height: f64, left: f64, title: &str) -> String {
    let title = escaped(title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<title>{title}</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"{left}\" y=\"20\" font-size=\"15\">{title}</text>\n"
    )
}

/// The distance of an axis' ticks: 1, 2 or 5 times a power of ten, not below `least`.
pub fn nice_step(least: f64) -> f64 {
    let least = least.max(1e-9);
    let ten = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0]
        .into_iter()
        .map(|n| n * ten)
        .find(|step| *step >= least * 0.999)
        .unwrap_or(ten * 10.0)
}

/// A number with up to `decimals` digits behind the point, without zeros that say nothing.
pub fn number(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    if text == "-0" { "0" } else { text }.to_owned()
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
        let picture = frame(9.0, 9.0, 1.0, "</title><script>");
        assert!(!picture.contains("<script"), "{picture}");
    }

    #[test]
    fn steps_are_nice() {
        for (least, step) in [
            (0.7, 1.0),
            (1.0, 1.0),
            (1.1, 2.0),
            (2.0, 2.0),
            (430.0, 500.0),
            (510.0, 1_000.0),
            (0.03, 0.05),
            (0.0, 1e-9),
        ] {
            assert!((nice_step(least) / step - 1.0).abs() < 1e-9, "{least}");
        }
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
