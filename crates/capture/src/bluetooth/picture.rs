//! Chart of throughput, modes and mode requests, as in Figures 4 and 5 of "Understanding the
//! Networking Performance of Wear OS".

use std::fmt::Write as _;

use mpbond_plot::{Anchor, Axis, Key, Panel, Svg, legend};

use super::analysis::{BluetoothReport, Link};
use super::infer::Side;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const PANEL: f64 = 150.0;
const STRIP: f64 = 16.0;
const EVENTS: f64 = 34.0;
const LINK: f64 = PANEL + STRIP + EVENTS + 70.0;

const SENT: &str = "#e69f00";
const RECEIVED: &str = "#0072b2";
const ACTIVE: &str = "#009e73";
const SNIFF: &str = "#c8c8c8";
const UNDESIRED: &str = "#d55e00";
const OTHER: &str = "#cc79a7";
const SNIFF_REQUEST: &str = "#b2182b";
const ACTIVE_REQUEST: &str = "#1b7837";

impl BluetoothReport {
    /// Links with modes or traffic as an SVG chart, in seconds from the first record.
    pub fn to_svg(&self, title: &str) -> String {
        let links: Vec<&Link> = self
            .links
            .iter()
            .filter(|l| !l.drawn.modes.is_empty() || !l.throughput.is_empty())
            .collect();
        let mut svg = Svg::new();
        let heading = svg.heading((LEFT, 20.0), WIDTH - RIGHT, title);
        let entries = [
            ("sent", SENT),
            ("received", RECEIVED),
            ("active", ACTIVE),
            ("sniff", SNIFF),
            ("undesired sniff", UNDESIRED),
            ("hold, park", OTHER),
            ("Sniff requested", SNIFF_REQUEST),
            ("Active requested", ACTIVE_REQUEST),
        ]
        .map(|(name, colour)| (Key::Colour(colour), name.to_owned()));
        let top = legend(&mut svg, &entries, LEFT, WIDTH - RIGHT, 30.0 + heading) + 12.0;
        for (i, link) in links.iter().enumerate() {
            self.draw(&mut svg, link, top + i as f64 * LINK);
        }
        svg.finish(title, WIDTH, top + links.len().max(1) as f64 * LINK)
    }

    fn draw(&self, svg: &mut Svg, link: &Link, top: f64) {
        let end = self.last_record_s.max(1e-3);
        let drawn = &link.drawn;
        let connection = match link.connection {
            0 => String::new(),
            n => format!(", connection {}", n + 1),
        };
        let name = format!("handle 0x{:03x}{connection}", link.handle);
        let name = format!("{name}: ACL payload, kbit/s in bins of 200 ms");
        svg.text((LEFT, top + 2.0), Anchor::Start, &name);
        let kbps = drawn.sent.iter().chain(&drawn.received).map(|bin| bin.1);
        let panel = Panel::new(
            (LEFT, top + 10.0),
            (WIDTH - LEFT - RIGHT, PANEL),
            Axis::exact("time", 0.0, end, 8.0),
            Axis::covering("kbit/s", kbps, true, 4.0),
        );
        panel.draw_y(svg, "");
        let floor = panel.bottom;
        let strip = floor + 4.0;
        let events = strip + STRIP + 10.0;
        panel.draw_x(svg, events + EVENTS, " s");
        for (bins, colour) in [(&drawn.sent, SENT), (&drawn.received, RECEIVED)] {
            let mut path = String::new();
            for (s, kbps) in bins {
                let (x0, x1) = (panel.x_of(*s), panel.x_of(s + super::throughput::BIN_S));
                let y = panel.y_of(*kbps);
                let _ = write!(path, "M{x0:.2} {floor:.1}V{y:.1}H{x1:.2}V{floor:.1}Z");
            }
            svg.area(&path, colour, 0.7, "");
        }
        for (i, (from, mode)) in drawn.modes.iter().enumerate() {
            let until = drawn.modes.get(i + 1).map_or(drawn.end_s, |next| next.0);
            let undesired = link.undesired_sniff.iter().any(|u| u.start_s == *from);
            let colour = match mode {
                0 => ACTIVE,
                2 if undesired => UNDESIRED,
                2 => SNIFF,
                _ => OTHER,
            };
            let left = panel.x_of(*from);
            let width = (panel.x_of(until) - left).max(0.5);
            svg.rect((left, strip), (width, STRIP), colour);
        }
        for (row, side) in [(0.0, Side::Local), (1.0, Side::Peer)] {
            let y = events + row * EVENTS / 2.0;
            let name = match side {
                Side::Local => "this end",
                Side::Peer => "other end",
            };
            svg.text((LEFT - 6.0, y + 4.0), Anchor::End, name);
            for (s, _) in drawn.entries.iter().filter(|(_, by)| *by == side) {
                let title = format!("requests Sniff at {s:.3} s");
                let at = (panel.x_of(*s) - 3.0, y - 3.0);
                svg.titled_rect(at, (6.0, 6.0), SNIFF_REQUEST, &title);
            }
            for (s, _) in drawn.exits.iter().filter(|(_, by)| *by == side) {
                let title = format!("requests Active at {s:.3} s");
                let triangle = format!("M{:.1} {:.1}l4 7h-8z", panel.x_of(*s), y - 4.0);
                svg.area(&triangle, ACTIVE_REQUEST, 1.0, &title);
            }
        }
    }
}
