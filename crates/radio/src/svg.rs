//! Chart of power over time: one panel for each interface, coloured by state.

use std::fmt::Write as _;

use mpbond_plot::{Anchor, Axis, Key, Panel, Svg, legend};

use crate::report::{EnergyReport, InterfaceReport};
use crate::timeline::State;

const WIDTH: f64 = 960.0;
const PANEL: f64 = 150.0;
const GAP: f64 = 46.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;

/// Colours that remain distinct for colour-blind readers (after Okabe and Ito) and on paper;
/// low-power states are pale.
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
    /// Power over time as an SVG chart, in seconds from the first packet.
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
        let mut svg = Svg::new();
        let heading = svg.heading((LEFT, 20.0), WIDTH - RIGHT, title);
        let below = legend(
            &mut svg,
            &states(&panels),
            LEFT,
            WIDTH - RIGHT,
            30.0 + heading,
        );
        for (i, (name, part, from)) in panels.iter().enumerate() {
            let top = below + i as f64 * (PANEL + GAP) + 16.0;
            draw(&mut svg, name, part, *from, (begin, end), top);
        }
        let height = below + panels.len().max(1) as f64 * (PANEL + GAP) + 10.0;
        svg.finish(title, WIDTH, height)
    }
}

/// Legend entries of the states with energy.
fn states(panels: &[(String, &InterfaceReport, f64)]) -> Vec<(Key, String)> {
    let spent = |state| {
        let mut sums = panels.iter().flat_map(|(_, part, _)| &part.energy.states);
        sums.any(|sum| sum.state == state && sum.joules > 0.0)
    };
    let states = State::ALL.into_iter().filter(|state| spent(*state));
    let entry = |state: State| (Key::Colour(colour(state)), state.name().to_owned());
    states.map(entry).collect()
}

fn draw(
    svg: &mut Svg,
    name: &str,
    part: &InterfaceReport,
    from: f64,
    (begin, end): (f64, f64),
    top: f64,
) {
    let bins: Vec<[f64; State::ALL.len()]> = part.trace.power_mw().collect();
    let x = Axis::exact("time", begin, end, 8.0);
    let sums = bins.iter().map(|bin| bin.iter().sum::<f64>());
    let y = Axis::covering("power", sums, true, 4.0);
    let panel = Panel::new((LEFT, top), (WIDTH - LEFT - RIGHT, PANEL), x, y);
    let name = format!("{name}, {:.3} J", part.energy.joules);
    svg.text((LEFT, top - 5.0), Anchor::Start, &name);
    panel.draw(svg, " s", " mW");
    areas(svg, &bins, from, part.trace.width_s(), &panel);
}

/// Areas of the states, stacked in the order of [`State::ALL`].
fn areas(svg: &mut Svg, bins: &[[f64; State::ALL.len()]], from: f64, width: f64, panel: &Panel) {
    let mut below = vec![0.0; bins.len()];
    for state in State::ALL {
        let mut path = String::new();
        // Neighbours of the same height make one rectangle.
        let mut open: Option<(usize, f64, f64)> = None;
        let mut close = |open: Option<(usize, f64, f64)>, end: usize| {
            if let Some((first, low, high)) = open {
                let (x0, x1) = (
                    panel.x_of(from + first as f64 * width),
                    panel.x_of(from + end as f64 * width),
                );
                let (y0, y1) = (panel.y_of(low), panel.y_of(high));
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
        svg.area(&path, colour(state), 1.0, state.name());
    }
}
