//! Elements of SVG, and the styles of series.

use std::fmt::Write as _;

use crate::text::{TEXT, escaped, text_width, wrapped};

/// Colours of series after Okabe and Ito, dark ones first: yellow is hard to see on paper.
const COLOURS: [&str; 8] = [
    "#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#555555", "#b8a800",
];

/// Dashes of lines: colours repeat after eight series, dashes after four.
const DASHES: [&str; 4] = ["", "7 3", "2 3", "9 3 2 3"];

/// Colour of a series.
pub(crate) fn colour(style: usize) -> &'static str {
    COLOURS[style % COLOURS.len()]
}

/// Dash of a series.
pub(crate) fn dash(style: usize) -> &'static str {
    DASHES[(style + style / COLOURS.len()) % DASHES.len()]
}

/// Hatching of a bar: none and stripes alternately, other stripes when colours repeat.
fn hatch(style: usize) -> Option<&'static str> {
    let turn = (style / COLOURS.len()) % 3;
    match (turn, style % 2) {
        (0, 0) => None,
        (0, _) => Some("rise"),
        (1, 0) => Some("fall"),
        (1, _) => Some("upright"),
        _ => Some("level"),
    }
}

/// Hatching patterns: name, and rotation of the stripes in degrees.
const HATCHES: [(&str, u32); 4] = [("rise", 45), ("fall", 135), ("upright", 0), ("level", 90)];

/// Height of headings.
const HEADING: f64 = 14.0;

/// Scale below which text is too small to read. A page does not make a chart smaller on a narrow
/// screen.
const SMALLEST: f64 = 0.75;

/// Alignment of a text to its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// The text begins at the point.
    Start,
    /// The text is centred on the point.
    Middle,
    /// The text ends at the point.
    End,
}

/// An SVG image under construction. Coordinates are in pixels, y downwards.
#[derive(Debug, Default)]
pub struct Svg {
    body: String,
}

impl Svg {
    /// An empty image.
    pub fn new() -> Self {
        Self::default()
    }

    /// The finished image as a file; `title` is for screen readers.
    pub fn finish(self, title: &str, width: f64, height: f64) -> String {
        let inline = self.inline(title, width, height);
        inline.replacen("<svg ", "<svg xmlns=\"http://www.w3.org/2000/svg\" ", 1)
    }

    /// The finished image on a white background as an element of an HTML page, where it needs no
    /// namespace.
    pub fn inline(self, title: &str, width: f64, height: f64) -> String {
        let title = escaped(title);
        let pattern = |(name, degrees): (&str, u32)| {
            format!(
                "<pattern id=\"{name}\" width=\"6\" height=\"6\" \
                 patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate({degrees})\">\
                 <path d=\"M0 0V6\" stroke=\"#ffffff\" stroke-width=\"2.4\"/></pattern>"
            )
        };
        let patterns: String = match self.body.contains("url(#") {
            true => HATCHES.into_iter().map(pattern).collect(),
            false => String::new(),
        };
        let least = width * SMALLEST;
        format!(
            "<svg viewBox=\"0 0 {width:.0} {height:.0}\" \
             width=\"{width:.0}\" height=\"{height:.0}\" style=\"min-width:{least:.0}px\" \
             role=\"img\" \
             font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\" font-size=\"{TEXT}\">\n\
             <title>{title}</title>\n\
             <defs>{patterns}</defs>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{}</svg>\n",
            self.body
        )
    }

    /// A text.
    pub fn text(&mut self, at: (f64, f64), anchor: Anchor, text: &str) {
        self.coloured_text(at, anchor, text, "#000000");
    }

    /// A text in a colour.
    pub fn coloured_text(&mut self, (x, y): (f64, f64), anchor: Anchor, text: &str, colour: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escaped(text);
        let fill = match colour {
            "#000000" => String::new(),
            other => format!(" fill=\"{other}\""),
        };
        let _ = writeln!(
            self.body,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\"{fill}>{text}</text>"
        );
    }

    /// The heading of a chart, in as many lines as it needs to end before `right`; returns the
    /// height of the lines after the first one.
    pub fn heading(&mut self, (x, y): (f64, f64), right: f64, text: &str) -> f64 {
        // Bold, and larger than other text.
        let lines = wrapped(text, |line| x + text_width(line) * 1.3 <= right);
        let mut below = 0.0;
        for (number, line) in lines.iter().enumerate() {
            below = number as f64 * HEADING * 1.3;
            let (line, y) = (escaped(line), y + below);
            let _ = writeln!(
                self.body,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{HEADING}\" \
                 font-weight=\"bold\">{line}</text>"
            );
        }
        below
    }

    /// Rotated text that ends at a point; vertical text (-90 degrees) is centred on it.
    pub fn slanted(&mut self, (x, y): (f64, f64), text: &str, degrees: f64) {
        let text = escaped(text);
        let anchor = if degrees == -90.0 { "middle" } else { "end" };
        let _ = writeln!(
            self.body,
            "<text transform=\"translate({x:.1} {y:.1}) rotate({degrees})\" \
             text-anchor=\"{anchor}\">{text}</text>"
        );
    }

    /// What `draw` draws, with a tooltip: a name of which it shows a part.
    pub fn titled(&mut self, title: &str, draw: impl FnOnce(&mut Self)) {
        let _ = writeln!(self.body, "<g>{}", tooltip(title));
        draw(self);
        self.body.push_str("</g>\n");
    }

    /// A straight line.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, width: f64) {
        let _ = writeln!(
            self.body,
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\" \
             stroke-width=\"{width}\"/>",
            from.0, from.1, to.0, to.1
        );
    }

    /// A line through points; `dash` is empty for a solid line.
    pub fn path(&mut self, points: &[(f64, f64)], colour: &str, width: f64, dash: &str) {
        if points.is_empty() {
            return;
        }
        let mut d = String::new();
        for (i, (x, y)) in points.iter().enumerate() {
            let _ = write!(d, "{}{x:.1} {y:.1}", if i == 0 { "M" } else { "L" });
        }
        let _ = writeln!(
            self.body,
            "<path d=\"{d}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" \
             stroke-dasharray=\"{dash}\" stroke-linejoin=\"round\"/>"
        );
    }

    /// A rectangle.
    pub fn rect(&mut self, at: (f64, f64), size: (f64, f64), colour: &str) {
        self.titled_rect(at, size, colour, "");
    }

    /// A rectangle with a tooltip.
    pub fn titled_rect(
        &mut self,
        (x, y): (f64, f64),
        (width, height): (f64, f64),
        colour: &str,
        title: &str,
    ) {
        let _ = writeln!(
            self.body,
            "<rect x=\"{x:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{height:.1}\" \
             fill=\"{colour}\">{}</rect>",
            tooltip(title)
        );
    }

    /// A filled area with a tooltip; `d` is the data of an SVG path.
    pub fn area(&mut self, d: &str, colour: &str, opacity: f64, title: &str) {
        if d.is_empty() {
            return;
        }
        let _ = writeln!(
            self.body,
            "<path fill=\"{colour}\" fill-opacity=\"{opacity}\" d=\"{d}\">{}</path>",
            tooltip(title)
        );
    }

    /// A bar in the style of a series, hatched if the style is.
    pub fn bar(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), style: usize) {
        let height = height.max(0.0);
        let mut rect = |fill: &str| {
            let _ = writeln!(
                self.body,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
                 fill=\"{fill}\"/>"
            );
        };
        rect(colour(style));
        if let Some(hatch) = hatch(style) {
            rect(&format!("url(#{hatch})"));
        }
    }

    /// A small dot: one of many values.
    pub fn dot(&mut self, (x, y): (f64, f64)) {
        let _ = writeln!(
            self.body,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"1.5\" fill=\"#ffffff\" \
             stroke=\"#333333\" stroke-width=\"0.6\"/>"
        );
    }

    /// A marker in the style of a series: circle, square, triangle or diamond.
    pub fn marker(&mut self, (x, y): (f64, f64), style: usize, size: f64, opacity: f64) {
        let colour = colour(style);
        let look = format!("fill=\"{colour}\" fill-opacity=\"{opacity}\"");
        let r = size;
        let _ = match (style + style / COLOURS.len()) % 4 {
            0 => writeln!(
                self.body,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{r:.1}\" {look}/>"
            ),
            1 => writeln!(
                self.body,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" {look}/>",
                x - r * 0.9,
                y - r * 0.9,
                r * 1.8,
                r * 1.8
            ),
            2 => writeln!(
                self.body,
                "<path d=\"M{:.1} {:.1}h{:.1}l{:.1} {:.1}Z\" {look}/>",
                x - r * 1.15,
                y + r * 0.85,
                r * 2.3,
                -r * 1.15,
                -r * 2.0
            ),
            _ => writeln!(
                self.body,
                "<path d=\"M{x:.1} {:.1}l{:.1} {:.1}l{:.1} {:.1}l{:.1} {:.1}Z\" {look}/>",
                y - r * 1.3,
                r * 1.3,
                r * 1.3,
                -r * 1.3,
                r * 1.3,
                -r * 1.3,
                -r * 1.3
            ),
        };
    }
}

fn tooltip(title: &str) -> String {
    match title {
        "" => String::new(),
        title => format!("<title>{}</title>", escaped(title)),
    }
}
