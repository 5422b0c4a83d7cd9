//! Phases of handovers, from logs of connectivity and of the application's data.

use std::collections::BTreeMap;
use std::io::Read;

use super::handover::{Handover, Phases, PhasesReport};
use super::interface_log::{Entry, read};
use crate::error::CaptureError;

const STATES_HEADER: &str = "time_s,interface,state";
const BYTES_HEADER: &str = "time_s,interface,app_bytes";

/// State of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Off,
    Available,
    Connected,
}

/// Finds the handovers in a connectivity log (`time_s,interface,state` with off, available or
/// connected) and a log of the application's data (`time_s,interface,app_bytes`).
///
/// # Errors
/// One line with file, line and reason.
pub fn phases<R: Read, S: Read>(
    states: (&str, R),
    bytes: (&str, S),
) -> Result<PhasesReport, CaptureError> {
    let states = read(states.0, states.1, STATES_HEADER, |text| match text {
        "off" => Ok(State::Off),
        "available" => Ok(State::Available),
        "connected" => Ok(State::Connected),
        other => Err(format!("`{other}` is not off, available or connected")),
    })?;
    let data = read(bytes.0, bytes.1, BYTES_HEADER, |text| {
        text.parse::<u64>()
            .map_err(|_| format!("`{text}` is not a number of bytes"))
    })?;
    let mut report = PhasesReport {
        phases: None,
        handovers: Vec::new(),
        unfinished: 0,
    };
    let mut now: BTreeMap<&str, State> = BTreeMap::new();
    for (at, interface, state) in &states {
        let before = now.insert(interface, *state);
        if before == Some(State::Connected) && *state != State::Connected {
            match handover(*at, interface, &states, &data) {
                // The old interface was connected and lost again, without data: the same handover.
                Some(found) if report.handovers.iter().any(|h| h.is_same(&found)) => {}
                Some(found) => report.handovers.push(found),
                None => report.unfinished += 1,
            }
        }
    }
    let n = report.handovers.len();
    if n > 0 {
        let mean = |pick: fn(&Phases) -> f64| {
            let sum: f64 = report.handovers.iter().map(|h| pick(&h.phases)).sum();
            micros(sum / n as f64)
        };
        report.phases = Some(Phases {
            p1_s: mean(|p| p.p1_s),
            p2_s: mean(|p| p.p2_s),
            p3_s: mean(|p| p.p3_s),
            p4_s: mean(|p| p.p4_s),
        });
    }
    Ok(report)
}

fn micros(s: f64) -> f64 {
    (s * 1e6).round() / 1e6
}

/// The handover that follows the loss of `old` at `lost`.
fn handover(
    lost: f64,
    old: &str,
    states: &[Entry<State>],
    data: &[Entry<u64>],
) -> Option<Handover> {
    let carried = data.iter().filter(|(_, _, bytes)| *bytes > 0);
    let (last_data, ..) = carried
        .clone()
        .rfind(|(at, interface, _)| interface == old && *at <= lost)?;
    let (first_data, new, _) = carried
        .clone()
        .find(|(at, interface, _)| interface != old && at > last_data)?;
    // The old interface returned first: there was no handover.
    if carried
        .clone()
        .any(|(at, i, _)| i == old && *at > lost && at < first_data)
    {
        return None;
    }
    // The old connection may outlive the handover: the phases end with the first data.
    let lost = lost.min(*first_data);
    // Time at which the new interface last reached a state or better, before its first data.
    let reached = |wanted: State| {
        let mut since = None;
        for (at, interface, state) in states {
            if interface == new && at <= first_data {
                since = if *state < wanted {
                    None
                } else {
                    since.or(Some(*at))
                };
            }
        }
        since
    };
    let there = reached(State::Available).unwrap_or(lost).max(lost);
    let connected = reached(State::Connected).unwrap_or(there).max(there);
    Some(Handover {
        from: old.to_owned(),
        to: new.clone(),
        last_data_s: *last_data,
        first_data_s: *first_data,
        phases: Phases {
            p1_s: micros(lost - last_data),
            p2_s: micros(there.min(*first_data).max(lost) - lost),
            p3_s: micros((connected.min(*first_data) - there).max(0.0)),
            p4_s: micros((first_data - connected).max(0.0)),
        },
        rssi: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(states: &str, bytes: &str) -> Result<PhasesReport, CaptureError> {
        let states = format!("{STATES_HEADER}\n{states}");
        let bytes = format!("{BYTES_HEADER}\n{bytes}");
        phases(("states", states.as_bytes()), ("bytes", bytes.as_bytes()))
    }

    /// The paper's means on an LG Urbane: 12.9, 15.5, 8.3 s, and 33.3 s of the application.
    #[test]
    fn the_papers_handover_is_split() {
        let r = report(
            "0,bt,connected\n0,wifi,off\n18.9,bt,off\n34.4,wifi,available\n42.7,wifi,connected\n",
            "5.0,bt,3000\n6.0,bt,3000\n7.0,bt,0\n76.0,wifi,3000\n76.2,wifi,3000\n",
        )
        .unwrap();
        let phases = Phases {
            p1_s: 12.9,
            p2_s: 15.5,
            p3_s: 8.3,
            p4_s: 33.3,
        };
        assert_eq!(r.phases, Some(phases));
        assert_eq!((r.handovers.len(), r.unfinished), (1, 0));
        let h = &r.handovers[0];
        assert_eq!((h.last_data_s, h.first_data_s), (6.0, 76.0));
    }

    /// WiFi was connected before Bluetooth went: nothing but P1 and P4 is left.
    #[test]
    fn a_network_that_was_ready_leaves_no_gap() {
        let r = report(
            "0,bt,connected\n1,wifi,available\n2,wifi,connected\n10,bt,off\n",
            "9.5,bt,10\n10.25,wifi,10\n",
        )
        .unwrap();
        let p = r.phases.unwrap();
        assert_eq!((p.p1_s, p.p2_s, p.p3_s, p.p4_s), (0.5, 0.0, 0.0, 0.25));
    }

    /// Data moves to WiFi at 10.25 s; Bluetooth stays connected for another minute.
    #[test]
    fn an_old_connection_that_outlives_the_handover_adds_nothing() {
        let r = report(
            "0,bt,connected\n1,wifi,available\n2,wifi,connected\n70,bt,off\n",
            "9.5,bt,10\n10.25,wifi,10\n60,wifi,10\n",
        )
        .unwrap();
        let p = r.phases.unwrap();
        assert_eq!((p.p1_s, p.p2_s, p.p3_s, p.p4_s), (0.75, 0.0, 0.0, 0.0));
    }

    /// Bluetooth returns without data, before and after the first data over WiFi.
    #[test]
    fn an_old_connection_that_is_lost_again_makes_no_second_handover() {
        let r = report(
            "0,bt,connected\n10,bt,off\n12,bt,connected\n14,bt,off\n16,wifi,connected\n\
             30,bt,connected\n40,bt,off\n",
            "9.5,bt,10\n20,wifi,10\n50,wifi,10\n",
        )
        .unwrap();
        assert_eq!((r.handovers.len(), r.unfinished), (1, 0));
        let p = r.phases.unwrap();
        assert_eq!((p.p1_s, p.p2_s, p.p3_s, p.p4_s), (0.5, 6.0, 0.0, 4.0));
    }

    #[test]
    fn a_loss_without_a_successor_is_unfinished() {
        let r = report("0,bt,connected\n5,bt,off\n", "1,bt,10\n").unwrap();
        assert_eq!((r.phases, r.unfinished), (None, 1));
    }

    #[test]
    fn bad_lines_are_named() {
        for (states, bytes, words) in [
            ("0,bt,on\n", "", "states: line 2: `on` is not"),
            ("x,bt,off\n", "", "states: line 2: `x` is not a time"),
            ("1,bt,off\n0,bt,off\n", "", "states: line 3: time goes back"),
            ("", "1,bt\n", "bytes: line 2: not three fields"),
            ("", "1,bt,-4\n", "bytes: line 2: `-4` is not a number"),
            ("nan,bt,off\n", "", "not a time"),
        ] {
            let e = report(states, bytes).unwrap_err().to_string();
            assert!(e.contains(words), "{e}");
        }
    }
}
