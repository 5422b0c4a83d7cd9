//! Throughput over distance, as in Figure 2 of the MPBond paper for a pipe, from measurements at
//! known distances.

use std::collections::BTreeMap;

use serde::Serialize;

use super::profile::{fields, list};
use super::{Column, Distribution, MAX_LINES, RateUnit, TraceError, quote};

/// Format of a table of distances and rates.
#[derive(Debug, Clone, PartialEq)]
pub struct DistanceForm {
    /// Column of the distances, in metres.
    pub distance: Column,
    /// Column of the rates.
    pub rate: Column,
    /// Column of the conditions of measurement (such as walls), if there is one.
    pub condition: Option<Column>,
    /// The unit of the rates.
    pub unit: RateUnit,
}

/// One measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct AtDistance {
    /// Condition; empty if the table has none.
    pub condition: String,
    /// Distance in metres.
    pub distance_m: f64,
    /// Throughput in Mbit/s.
    pub mbps: f64,
}

/// Measurements in one step of distance.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DistanceBin {
    /// Condition; empty if the tables have none.
    pub condition: String,
    /// Begin of the step, in metres.
    pub from_m: f64,
    /// End of the step, in metres, not included.
    pub to_m: f64,
    /// Number of measurements.
    pub samples: usize,
    /// Distribution of their throughputs.
    pub throughput_mbps: Distribution,
}

/// Maximum distance in metres, beyond the range of WiFi and Bluetooth: a larger value has another
/// unit.
const MAX_METRES: f64 = 1e6;
/// Maximum throughput in Mbit/s, as of recorded links.
const MAX_MBPS: f64 = 1e6;

/// Reads a table, its fields separated as [`super::RateProfile::parse`] has
/// it; empty lines and lines that begin with `#` are skipped. Where any column
/// is given by name, the first line has the names. `file` is only used in
/// errors.
///
/// # Errors
/// A line without a distance or a rate, negative or absurd values, no
/// measurement at all, or more than ten million lines.
pub fn parse_distances(
    file: &str,
    text: &str,
    form: &DistanceForm,
) -> Result<Vec<AtDistance>, TraceError> {
    let columns = [
        Some(&form.distance),
        Some(&form.rate),
        form.condition.as_ref(),
    ];
    let mut named = columns.iter().any(|c| matches!(c, Some(Column::Name(_))));
    let mut places = columns.map(|column| match column {
        Some(Column::Number(number)) => Some(number.get() - 1),
        _ => None,
    });
    let mut all = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let at = |reason: String| TraceError::line(file, index + 1, reason);
        if index >= MAX_LINES {
            return Err(at(format!("a table has at most {MAX_LINES} lines")));
        }
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let fields = fields(line);
        if named {
            for (place, column) in places.iter_mut().zip(columns) {
                let Some(Column::Name(name)) = column else {
                    continue;
                };
                let found = fields.iter().position(|field| field == name);
                *place = Some(found.ok_or_else(|| {
                    let (name, names) = (quote(name), list(&fields));
                    at(format!("there is no column {name}: {names}"))
                })?);
            }
            named = false;
            continue;
        }
        let [distance, rate, condition] = places;
        let field = |place: Option<usize>, what: &str| {
            let text = place.and_then(|place| fields.get(place));
            text.copied()
                .ok_or_else(|| at(format!("{} has no {what}", quote(line))))
        };
        let number = |text: &str, most: f64, what: &str| {
            let number = text.parse::<f64>().ok();
            number
                .filter(|number| (0.0..=most).contains(number))
                .ok_or_else(|| at(format!("{} is no {what}", quote(text))))
        };
        let distance_m = number(
            field(distance, "distance")?,
            MAX_METRES,
            "distance in metres",
        )?;
        let rate = number(field(rate, "rate")?, f64::MAX, "rate")?;
        let mbps = rate * form.unit.bits() / 1e6;
        if mbps > MAX_MBPS {
            return Err(at(format!("{rate} is not a possible rate in this unit")));
        }
        let condition = match condition {
            Some(_) => field(condition, "condition")?.to_owned(),
            None => String::new(),
        };
        all.push(AtDistance {
            condition,
            distance_m,
            mbps,
        });
    }
    if all.is_empty() {
        return Err(TraceError::file(file, "no measurement is in it"));
    }
    Ok(all)
}

/// Distributions over steps of `step_m` metres (above 0), by condition, then
/// by distance.
pub fn by_distance(all: &[AtDistance], step_m: f64) -> Vec<DistanceBin> {
    let mut bins: BTreeMap<(&str, u64), Vec<f64>> = BTreeMap::new();
    for one in all {
        let bin = (one.distance_m / step_m) as u64;
        let key = (one.condition.as_str(), bin);
        bins.entry(key).or_default().push(one.mbps);
    }
    bins.into_iter()
        .map(|((condition, bin), mbps)| DistanceBin {
            condition: condition.to_owned(),
            from_m: bin as f64 * step_m,
            to_m: (bin + 1) as f64 * step_m,
            samples: mbps.len(),
            throughput_mbps: Distribution::of(mbps),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;

    fn number(n: usize) -> Column {
        Column::Number(NonZeroUsize::new(n).unwrap())
    }

    fn plain() -> DistanceForm {
        DistanceForm {
            distance: number(1),
            rate: number(2),
            condition: None,
            unit: RateUnit::MegabitPerSecond,
        }
    }

    #[test]
    fn bins_by_hand() {
        let text = "# walked\nwhen,sight,m,rate\n1,yes,0,10\n2,yes,4.9,30\n3,yes,5,8\n4,no,12,2\n";
        let form = DistanceForm {
            distance: Column::Name("m".into()),
            rate: Column::Name("rate".into()),
            condition: Some(number(2)),
            unit: RateUnit::BytePerSecond,
        };
        let all = parse_distances("w.csv", text, &form).unwrap();
        let bins = by_distance(&all, 5.0);
        let seen: Vec<_> = bins
            .iter()
            .map(|b| (b.condition.as_str(), b.from_m, b.to_m, b.samples))
            .collect();
        assert_eq!(
            seen,
            [
                ("no", 10.0, 15.0, 1),
                ("yes", 0.0, 5.0, 2),
                ("yes", 5.0, 10.0, 1)
            ]
        );
        let near = bins[1].throughput_mbps;
        assert!((near.mean - 20.0 * 8e-6).abs() < 1e-12, "{near:?}");
        // 10 and 30 bytes a second, interpolated.
        assert!((near.p95 - 29.0 * 8e-6).abs() < 1e-12, "{near:?}");
    }

    #[test]
    fn complaints_name_file_and_line() {
        for (text, want) in [
            ("", "d: no measurement is in it"),
            ("# 1 2\n", "d: no measurement is in it"),
            ("1 2\n5\n", "d:2: \"5\" has no rate"),
            ("x 2\n", "d:1: \"x\" is no distance in metres"),
            ("-1 2\n", "d:1: \"-1\" is no distance in metres"),
            ("inf 2\n", "d:1: \"inf\" is no distance in metres"),
            ("1 NaN\n", "d:1: \"NaN\" is no rate"),
            (
                "1 9e9\n",
                "d:1: 9000000000 is not a possible rate in this unit",
            ),
        ] {
            let e = parse_distances("d", text, &plain()).unwrap_err();
            assert_eq!(e.to_string(), want, "{text:?}");
        }
        let named = DistanceForm {
            rate: Column::Name("speed".into()),
            ..plain()
        };
        let e = parse_distances("d", "m,rate\n1,2\n", &named).unwrap_err();
        assert_eq!(e.to_string(), "d:1: there is no column \"speed\": m, rate");
    }
}
