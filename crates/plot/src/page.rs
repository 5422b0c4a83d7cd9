//! Style of HTML pages with charts.

/// Style sheet of pages with inline charts: colours for light and dark screens, tables, and charts
/// that fit a narrow screen. A chart is inside an element of the class `chart`, a table that may be
/// too wide inside one of the class `wide`; cells with numbers have the class `n`.
pub const PAGE_STYLE: &str = include_str!("../data/page.css");

#[cfg(test)]
mod tests {
    use super::PAGE_STYLE;
    use crate::{Chart, Form, Series};

    /// The rules for dark screens name the colours that charts have.
    #[test]
    fn rules_for_charts_fit_what_charts_are_drawn_with() {
        let chart = Chart {
            title: "t".into(),
            x_label: "x".into(),
            y_label: "y".into(),
            from_zero: (true, true),
            series: vec![Series {
                name: "s".into(),
                style: 6,
                form: Form::Line,
                points: vec![(0.0, 0.0).into(), (1.0, 1.0).into()],
            }],
        };
        let svg = chart.to_svg();
        for part in [
            "<rect width=\"100%\"",
            "stroke=\"#dddddd\"",
            "stroke=\"#333333\"",
            "stroke=\"#555555\"",
        ] {
            assert!(svg.contains(part), "{part}: {svg}");
            let rule = part.trim_start_matches("<rect ");
            assert!(PAGE_STYLE.contains(&format!("[{rule}]")), "{rule}");
        }
    }
}
