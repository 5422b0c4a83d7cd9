//! Throughput beside modes, and who asked for them when: as the Wear OS paper's Figures 4 and 5.

use std::fmt::Write as _;

use mpbond_plot::{escaped, frame};

use super::analysis::{BluetoothReport, Link};
use super::infer::Side;
use crate::svg::{Axis, time_axis};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const PANEL: f64 = 150.0;
const STRIP: f64 = 16.0;
const EVENTS: f64 = 34.0;
const LINK: f64 = PANEL + STRIP + EVENTS + 70.0;
const TOP: f64 = 60.0;

const SENT: &str = "#e69f00";
const RECEIVED: &str = "#0072b2";
const ACTIVE: &str = "#009e73";
const SNIFF: &str = "#c8c8c8";
const UNDESIRED: &str = "#d55e00";
const OTHER: &str = "#cc79a7";

impl BluetoothReport {
    /// Links with modes or traffic as an SVG image. Seconds count from the first record.
    pub fn to_svg(&self, title: &str) -> String {
        let links: Vec<&Link> = self
            .links
            .iter()
            .filter(|l| !l.drawn.modes.is_empty() || !l.throughput.is_empty())
            .collect();
        let height = TOP + links.len().max(1) as f64 * LINK;
        let mut svg = frame(WIDTH, height, LEFT, title);
        let mut x = LEFT;
        for (name, colour) in [
            ("sent", SENT),
            ("received", RECEIVED),
            ("active", ACTIVE),
            ("sniff", SNIFF),
            ("undesired sniff", UNDESIRED),
            ("hold, park", OTHER),
        ] {
            let _ = writeln!(
                svg,
                "<rect x=\"{x}\" y=\"30\" width=\"12\" height=\"12\" fill=\"{colour}\"/>\
                 <text x=\"{}\" y=\"40\">{name}</text>",
                x + 16.0
            );
            x += 34.0 + name.len() as f64 * 7.0;
        }
        for (i, link) in links.iter().enumerate() {
            self.draw(&mut svg, link, TOP + i as f64 * LINK);
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn draw(&self, svg: &mut String, link: &Link, top: f64) {
        let end = self.last_record_s.max(1e-3);
        let drawn = &link.drawn;
        let highest = drawn
            .sent
            .iter()
            .chain(&drawn.received)
            .map(|(_, kbps)| *kbps)
            .fold(1.0, f64::max);
        let x_of = |s: f64| LEFT + s / end * (WIDTH - LEFT - RIGHT);
        let connection = match link.connection {
            0 => String::new(),
            n => format!(", connection {}", n + 1),
        };
        let name = format!("handle 0x{:03x}{connection}", link.handle);
        let _ = writeln!(
            svg,
            "<text x=\"{LEFT}\" y=\"{:.1}\">{}: ACL payload, kbit/s in bins of 200 ms</text>",
            top + 2.0,
            escaped(&name)
        );
        let panel = top + 10.0;
        let y = Axis::new(highest, panel, PANEL);
        y.draw(svg, LEFT, WIDTH - RIGHT);
        for (bins, colour) in [(&drawn.sent, SENT), (&drawn.received, RECEIVED)] {
            let mut path = String::new();
            let floor = panel + PANEL;
            for (s, kbps) in bins {
                let (x0, x1) = (x_of(*s), x_of(s + super::throughput::BIN_S));
                let _ = write!(
                    path,
                    "M{x0:.2} {floor:.1}V{:.1}H{x1:.2}V{floor:.1}Z",
                    y.at(*kbps)
                );
            }
            let _ = writeln!(
                svg,
                "<path fill=\"{colour}\" fill-opacity=\"0.7\" d=\"{path}\"/>"
            );
        }
        let strip = panel + PANEL + 4.0;
        for (i, (from, mode)) in drawn.modes.iter().enumerate() {
            let until = drawn.modes.get(i + 1).map_or(drawn.end_s, |next| next.0);
            let undesired = link.undesired_sniff.iter().any(|u| u.start_s == *from);
            let colour = match mode {
                0 => ACTIVE,
                2 if undesired => UNDESIRED,
                2 => SNIFF,
                _ => OTHER,
            };
            let width = (x_of(until) - x_of(*from)).max(0.5);
            let _ = writeln!(
                svg,
                "<rect x=\"{:.2}\" y=\"{strip:.1}\" width=\"{width:.2}\" height=\"{STRIP}\" \
                 fill=\"{colour}\"/>",
                x_of(*from)
            );
        }
        let events = strip + STRIP + 10.0;
        for (row, side) in [(0.0, Side::Local), (1.0, Side::Peer)] {
            let y = events + row * EVENTS / 2.0;
            let who = if side == Side::Local {
                "this end"
            } else {
                "other end"
            };
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" font-size=\"10\">{who}</text>",
                LEFT - 4.0,
                y + 4.0
            );
            for (s, _) in drawn.entries.iter().filter(|(_, by)| *by == side) {
                let x = x_of(*s);
                let _ = writeln!(
                    svg,
                    "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"6\" height=\"6\" fill=\"#b2182b\">\
                     <title>asks for Sniff at {s:.3} s</title></rect>",
                    x - 3.0,
                    y - 3.0
                );
            }
            for (s, _) in drawn.exits.iter().filter(|(_, by)| *by == side) {
                let x = x_of(*s);
                let _ = writeln!(
                    svg,
                    "<path d=\"M{x:.1} {:.1}l4 7h-8z\" fill=\"#1b7837\">\
                     <title>asks for Active at {s:.3} s</title></path>",
                    y - 4.0
                );
            }
        }
        time_axis(svg, (0.0, end), x_of, events + EVENTS);
    }
}
