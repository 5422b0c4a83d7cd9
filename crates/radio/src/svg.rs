//! A picture of power over time: one panel an interface, states coloured.

use std::fmt::Write as _;

use mpbond_plot::{escaped, frame, nice_step, number};

use crate::report::{EnergyReport, InterfaceReport};
use crate::timeline::State;

const WIDTH: f64 = 960.0;
const PANEL: f64 = 150.0;
const GAP: f64 = 46.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 58.0;

/// Colours that stay apart for colour-blind eyes (after Okabe and Ito) and on
/// paper; low-power states are pale.
const fn colour(state: State) -> &'static str {
    match state {
        State::Off => "#ffffff",
        State::Idle | State::Psm | State::Sniff | State::Asleep => "#c8c8c8",
        State::Inactive => "#9a9a9a",
        State::Association => "#8c510a",
        State::Promotion => "#d55e00",
        State::Active => "#0072b2",
        State::ContinuousReception => "#56b4e9",
        State::ShortDrx => "#f0e442",
        State::LongDrx | State::Tail => "#e69f00",
        State::Dch => "#cc79a7",
        State::Fach => "#f4c7dd",
        State::Cpu => "#009e73",
        State::Constant => "#666666",
    }
}

impl EnergyReport {
    /// Power over time as an SVG image. Seconds count from the first packet.
    pub fn to_svg(&self, title: &str) -> String {
        let start = self.start.unwrap_or_default().as_secs_f64();
        let panels: Vec<(String, &InterfaceReport, f64)> = self
            .devices
            .iter()
            .flat_map(|device| {
                device.parts().filter_map(move |part| {
                    let origin = part.trace.origin()?.as_secs_f64();
                    let name = format!("{}: {} ({})", device.name, part.name, part.profile);
                    Some((name, part, origin - start))
                })
            })
            .collect();
        let begin = panels.iter().map(|p| p.2).fold(0.0, f64::min);
        let end = panels
            .iter()
            .map(|(_, part, from)| from + part.trace.length_s())
            .fold(begin + 1e-3, f64::max);
        let height = TOP + panels.len().max(1) as f64 * (PANEL + GAP) + 10.0;
        let mut svg = frame(WIDTH, height, LEFT, title);
        legend(&mut svg, &panels);
        for (i, (name, part, from)) in panels.iter().enumerate() {
            let top = TOP + i as f64 * (PANEL + GAP) + 16.0;
            panel(&mut svg, name, part, *from, (begin, end), top);
        }
        svg.push_str("</svg>\n");
        svg
    }
}

fn legend(svg: &mut String, panels: &[(String, &InterfaceReport, f64)]) {
    let mut x = LEFT;
    for state in State::ALL {
        let drawn = panels.iter().any(|(_, part, _)| {
            part.energy
                .states
                .iter()
                .any(|sum| sum.state == state && sum.joules > 0.0)
        });
        if drawn {
            let _ = writeln!(
                svg,
                "<rect x=\"{x}\" y=\"32\" width=\"12\" height=\"12\" fill=\"{}\"/>\
                 <text x=\"{}\" y=\"42\">{}</text>",
                colour(state),
                x + 16.0,
                state.name()
            );
            x += 30.0 + state.name().len() as f64 * 7.0;
        }
    }
}

fn panel(
    svg: &mut String,
    name: &str,
    part: &InterfaceReport,
    from: f64,
    (begin, end): (f64, f64),
    top: f64,
) {
    let bins: Vec<[f64; State::ALL.len()]> = part.trace.power_mw().collect();
    let highest = bins
        .iter()
        .map(|bin| bin.iter().sum::<f64>())
        .fold(1e-3, f64::max);
    let step_y = nice_step(highest / 4.0);
    let limit = (highest / step_y).ceil() * step_y;
    let scale_x = (WIDTH - LEFT - RIGHT) / (end - begin);
    let x_of = |s: f64| LEFT + (s - begin) * scale_x;
    let y_of = |mw: f64| top + PANEL * (1.0 - mw / limit);
    let bottom = top + PANEL;
    let _ = writeln!(
        svg,
        "<text x=\"{LEFT}\" y=\"{:.1}\">{}</text>",
        top - 5.0,
        escaped(&format!("{name}, {:.3} J", part.energy.joules))
    );
    let mut mw = 0.0;
    while mw <= limit * 1.001 {
        let y = y_of(mw);
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#dddddd\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{mw:.0} mW</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            y + 4.0
        );
        mw += step_y;
    }
    let step_x = nice_step((end - begin) / 8.0);
    let mut s = (begin / step_x).ceil() * step_x;
    while s <= end {
        let x = x_of(s);
        let label = number(s, 3);
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{bottom:.1}\" y2=\"{:.1}\" stroke=\"#333333\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label} s</text>",
            bottom + 4.0,
            bottom + 17.0
        );
        s += step_x;
    }
    areas(svg, &bins, from, part.trace.width_s(), x_of, y_of);
    let _ = writeln!(
        svg,
        "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{bottom:.1}\" y2=\"{bottom:.1}\" stroke=\"#333333\"/>",
        WIDTH - RIGHT
    );
}

/// One path a state, stacked in the order of [`State::ALL`].
fn areas(
    svg: &mut String,
    bins: &[[f64; State::ALL.len()]],
    from: f64,
    width: f64,
    x_of: impl Fn(f64) -> f64,
    y_of: impl Fn(f64) -> f64,
) {
    let mut below = vec![0.0; bins.len()];
    for state in State::ALL {
        let mut path = String::new();
        // Neighbours of the same height make one box.
        let mut open: Option<(usize, f64, f64)> = None;
        let mut close = |open: Option<(usize, f64, f64)>, end: usize| {
            if let Some((first, low, high)) = open {
                let (x0, x1) = (
                    x_of(from + first as f64 * width),
                    x_of(from + end as f64 * width),
                );
                let (y0, y1) = (y_of(low), y_of(high));
                let _ = write!(path, "M{x0:.2} {y0:.1}V{y1:.1}H{x1:.2}V{y0:.1}Z");
            }
        };
        for (i, (bin, low)) in bins.iter().zip(&mut below).enumerate() {
            let high = *low + bin[state.index()];
            let same = open.is_some_and(|(_, l, h)| (l - *low).abs() + (h - high).abs() < 1e-6);
            if !same {
                close(open.take(), i);
                if high > *low {
                    open = Some((i, *low, high));
                }
            }
            *low = high;
        }
        close(open, bins.len());
        if !path.is_empty() {
            let _ = writeln!(
                svg,
                "<path fill=\"{}\" d=\"{path}\"><title>{}</title></path>",
                colour(state),
                state.name()
            );
        }
    }
}
