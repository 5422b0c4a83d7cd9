//! A QR code in a terminal.

use qrcode::{Color, EcLevel, QrCode};

/// Black on white, whatever the terminal's colours: many readers need it.
const COLOURS: &str = "\x1b[38;5;16;48;5;231m";
const RESET: &str = "\x1b[0m";
/// Width of the quiet zone in modules (ISO/IEC 18004).
const MARGIN: usize = 4;

/// The text as a picture, two modules in a character; `None` when it is too long for one.
/// `coloured` is for terminals.
pub(crate) fn picture(text: &str, coloured: bool) -> Option<String> {
    // A screen is not damaged: the lowest redundancy gives the smallest picture.
    let code = QrCode::with_error_correction_level(text, EcLevel::L).ok()?;
    let (width, modules) = (code.width(), code.to_colors());
    let side = width + 2 * MARGIN;
    let dark = |x: usize, y: usize| {
        let inside = |at: usize| at.checked_sub(MARGIN).filter(|at| *at < width);
        let (Some(x), Some(y)) = (inside(x), inside(y)) else {
            return false;
        };
        modules.get(y * width + x) == Some(&Color::Dark)
    };
    let mut out = String::new();
    for y in (0..side).step_by(2) {
        if coloured {
            out.push_str(COLOURS);
        }
        for x in 0..side {
            out.push(match (dark(x, y), dark(x, y + 1)) {
                (true, true) => '█',
                (true, false) => '▀',
                (false, true) => '▄',
                (false, false) => ' ',
            });
        }
        if coloured {
            out.push_str(RESET);
        }
        out.push('\n');
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_the_modules_of_its_code_and_a_margin() {
        let text = "MPBOND:PAIR/10.42.0.1:4435/1234-5678/EYGTWYB-WWIZNSL-4KBHPXP-SOYIV7T-\
                    EFA3AUC-QRIQWSU-XFSNIHN-FOCWDQC";
        let picture = picture(text, false).unwrap();
        let rows: Vec<Vec<char>> = picture.lines().map(|l| l.chars().collect()).collect();
        let side = rows[0].len();
        assert!(side <= 60 && rows.len() <= 30, "it fits a terminal: {side}");
        assert_eq!(rows.len(), side.div_ceil(2));
        // Back to modules, which are those of the code.
        let code = QrCode::with_error_correction_level(text, EcLevel::L).unwrap();
        let module = |x: usize, y: usize| match (rows[y / 2][x], y % 2) {
            ('█', _) | ('▀', 0) | ('▄', 1) => Color::Dark,
            _ => Color::Light,
        };
        for y in 0..side {
            for x in 0..side {
                let inside = |at: usize| (MARGIN..MARGIN + code.width()).contains(&at);
                let expected = if inside(x) && inside(y) {
                    code[(x - MARGIN, y - MARGIN)]
                } else {
                    Color::Light
                };
                assert_eq!(module(x, y), expected, "{x}, {y}");
            }
        }
        assert!(super::picture(&"x".repeat(5000), false).is_none());
    }
}
