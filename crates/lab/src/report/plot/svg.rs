//! The few elements of SVG that the pictures need.

use std::fmt::Write as _;

use mpbond_plot::escaped;

/// Colours after Okabe and Ito, dark ones first: yellow is hard to see on
/// paper.
const COLOURS: [&str; 8] = [
    "#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#555555", "#b8a800",
];

/// Dashes of lines: colours come again after eight series, dashes after four.
const DASHES: [&str; 4] = ["", "7 3", "2 3", "9 3 2 3"];

/// Height of text, in the picture's units.
pub(super) const TEXT: f64 = 12.0;

pub(super) fn colour(style: usize) -> &'static str {
    COLOURS[style % COLOURS.len()]
}

pub(super) fn dash(style: usize) -> &'static str {
    DASHES[(style + style / COLOURS.len()) % DASHES.len()]
}

/// The pattern over a bar: none or stripes by turns, other ones when colours
/// come again.
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

/// Patterns as `defs`: name and how far the stripes are turned.
const HATCHES: [(&str, u32); 4] = [("rise", 45), ("fall", 135), ("upright", 0), ("level", 90)];

/// About how wide a text will be: renderers differ, and so do fonts.
pub(super) fn text_width(text: &str) -> f64 {
    text.chars()
        .map(|c| if c.is_ascii() { 0.58 } else { 1.0 } * TEXT)
        .sum()
}

/// Where a text lies to its point.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A picture being drawn.
pub(super) struct Svg {
    body: String,
}

impl Svg {
    pub fn new() -> Self {
        Self {
            body: String::new(),
        }
    }

    /// The whole picture; `title` is for readers and for screen readers.
    pub fn finish(self, title: &str, width: f64, height: f64) -> String {
        let title = escaped(title);
        let pattern = |(name, degrees): (&str, u32)| {
            format!(
                "<pattern id=\"{name}\" width=\"6\" height=\"6\" \
                 patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate({degrees})\">\
                 <path d=\"M0 0V6\" stroke=\"#ffffff\" stroke-width=\"2.4\"/></pattern>"
            )
        };
        let patterns: String = HATCHES.into_iter().map(pattern).collect();
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
             width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\" \
             font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\" font-size=\"{TEXT}\">\n\
             <title>{title}</title>\n\
             <defs>{patterns}</defs>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{}</svg>\n",
            self.body
        )
    }

    pub fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escaped(text);
        let _ = writeln!(
            self.body,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
        );
    }

    pub fn heading(&mut self, (x, y): (f64, f64), text: &str) {
        let text = escaped(text);
        let _ = writeln!(
            self.body,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"14\" font-weight=\"bold\">{text}</text>"
        );
    }

    /// Text that ends at a point and rises towards it.
    pub fn slanted(&mut self, (x, y): (f64, f64), text: &str, degrees: f64) {
        let text = escaped(text);
        let anchor = if degrees == -90.0 { "middle" } else { "end" };
        let _ = writeln!(
            self.body,
            "<text transform=\"translate({x:.1} {y:.1}) rotate({degrees})\" \
             text-anchor=\"{anchor}\">{text}</text>"
        );
    }

    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, width: f64) {
        let _ = writeln!(
            self.body,
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\" \
             stroke-width=\"{width}\"/>",
            from.0, from.1, to.0, to.1
        );
    }

    pub fn path(&mut self, points: &[(f64, f64)], colour: &str, width: f64, dash: &str) {
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

    /// A bar, hatched or not.
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

    /// One of many values.
    pub fn dot(&mut self, (x, y): (f64, f64)) {
        let _ = writeln!(
            self.body,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"1.5\" fill=\"#ffffff\" \
             stroke=\"#333333\" stroke-width=\"0.6\"/>"
        );
    }

    /// A marker: circle, square, triangle, diamond, and so on again.
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

/// How a series shows in the legend.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Key {
    Bar(usize),
    Line(usize),
    Marker(usize),
    /// The bound, or another line to compare with.
    Reference,
}

/// Draws a legend between `left` and `right`, in as many rows as it needs, and
/// returns where it ends.
pub(super) fn legend(
    svg: &mut Svg,
    entries: &[(Key, String)],
    left: f64,
    right: f64,
    top: f64,
) -> f64 {
    const ROW: f64 = 18.0;
    const SWATCH: f64 = 24.0;
    const GAP: f64 = 16.0;
    let (mut x, mut y) = (left, top + TEXT);
    for (key, name) in entries {
        let width = SWATCH + 6.0 + text_width(name) + 16.0;
        if x > left && x + width > right {
            x = left;
            y += ROW;
        }
        let middle = y - TEXT * 0.35;
        match key {
            Key::Bar(style) => svg.bar((x + 6.0, y - 10.0), (14.0, 12.0), *style),
            Key::Line(style) => svg.path(
                &[(x, middle), (x + SWATCH, middle)],
                colour(*style),
                2.0,
                dash(*style),
            ),
            Key::Marker(style) => svg.marker((x + 14.0, middle), *style, 4.5, 1.0),
            Key::Reference => {
                svg.path(&[(x, middle), (x + SWATCH, middle)], "#000000", 1.6, "4 3");
            }
        }
        svg.text((x + SWATCH + 6.0, y), Anchor::Start, name);
        x += width;
    }
    y + GAP
}
