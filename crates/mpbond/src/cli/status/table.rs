//! Tables of a status: columns of a fixed maximum width, so that a row fits into 80 columns.

use clap::builder::styling::Style;

/// Width of a terminal that nobody has made wider.
pub(super) const WIDTH: usize = 80;

/// A column: its heading, its maximum width, and whether it holds numbers.
pub(super) struct Column(pub &'static str, pub usize, pub Align);

/// Side on which short cells of a column begin.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
}

/// A cell, in a style that is written around it.
#[derive(Clone, Default)]
pub(super) struct Cell {
    pub text: String,
    pub style: Style,
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        let style = Style::new();
        Self { text, style }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// The table as text, each line indented by two columns.
pub(super) fn table(columns: &[Column], rows: &[Vec<Cell>]) -> String {
    let width = |(index, column): (usize, &Column)| {
        let cells = rows.iter().filter_map(|row| row.get(index));
        let longest = cells.map(|c| c.text.chars().count()).max().unwrap_or(0);
        longest.min(column.1).max(column.0.chars().count())
    };
    let widths: Vec<usize> = columns.iter().enumerate().map(width).collect();
    let heading = columns.iter().map(|c| Cell {
        text: c.0.to_owned(),
        style: Style::new().bold(),
    });
    let heading: Vec<Cell> = heading.collect();
    let mut text = String::new();
    for row in std::iter::once(&heading).chain(rows) {
        let mut gap = "  ".to_owned();
        for ((cell, column), width) in row.iter().zip(columns).zip(&widths) {
            let (short, style) = (shortened(&cell.text, *width), cell.style);
            let missing = " ".repeat(width - short.chars().count());
            text.push_str(&gap);
            if column.2 == Align::Right {
                text.push_str(&missing);
            }
            if !short.is_empty() {
                text.push_str(&format!("{style}{short}{style:#}"));
            }
            gap = "  ".to_owned();
            if column.2 == Align::Left {
                gap.push_str(&missing);
            }
        }
        text.push('\n');
    }
    text
}

/// The beginning of a text that is too long, with an ellipsis.
fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let beginning: String = text.chars().take(width.saturating_sub(1)).collect();
    beginning + "\u{2026}"
}

/// A paragraph in lines of at most [`WIDTH`] columns, further lines indented by so many.
pub(super) fn wrapped(paragraph: &str, indent: usize) -> String {
    let mut text = String::new();
    let mut words = paragraph.split(' ');
    let mut line = words.next().unwrap_or_default().to_owned();
    for word in words {
        let length = line.chars().count() + 1 + word.chars().count();
        if !line.trim().is_empty() && length > WIDTH {
            text.push_str(&line);
            text.push('\n');
            line = " ".repeat(indent);
        } else {
            line.push(' ');
        }
        line.push_str(word);
    }
    text + &line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_cells_are_cut_and_styles_take_no_room() {
        let columns = [
            Column("NAME", 6, Align::Left),
            Column("N", 5, Align::Right),
            Column("NOTE", 9, Align::Left),
        ];
        let bold = Cell {
            text: "up".to_owned(),
            style: Style::new().bold(),
        };
        let rows = [
            vec!["a long name".into(), "1".into(), bold],
            vec!["b".into(), "1000".into(), "".into()],
        ];
        let expected = "  \x1b[1mNAME\x1b[0m       \x1b[1mN\x1b[0m  \x1b[1mNOTE\x1b[0m
  a lon\u{2026}     1  \x1b[1mup\x1b[0m
  b       1000  
";
        assert_eq!(table(&columns, &rows), expected);
    }

    #[test]
    fn paragraphs_keep_within_the_width() {
        let text = wrapped(&"word ".repeat(40), 2);
        assert!(text.lines().count() > 2);
        assert!(text.lines().all(|l| l.chars().count() <= WIDTH), "{text}");
        assert!(text.lines().skip(1).all(|l| l.starts_with("  w")), "{text}");
    }
}
