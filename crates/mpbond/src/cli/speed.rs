//! `mpbond speed`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use mpbond::config::{PrimaryConfig, Role, config_file};
use mpbond::speed::{Left, Rates, Span, SpeedTest, TooLittle, left};
use mpbond_command::{Failure, print};
use mpbond_manager::LinkId;
use mpbond_net::Identity;
use mpbond_units::{BitRate, human};
use serde::Serialize;
use tokio::task::LocalSet;

use super::hints::command;

/// Time before each measurement: slow start, the repair of its losses, queues that have to fill.
const WARM_UP: Duration = Duration::from_secs(2);

/// A way through a helper that carries this part of what its pipe carries alone is limited by the
/// pipe: the rest is overhead, and the difference between two measurements.
const OF_THE_PIPE: f64 = 0.8;

/// Measure the speed of each path and each pipe.
///
/// Each own path, and each way through a helper, is measured alone from this primary to the proxy,
/// down and up; then the pipe to the helper. That tells whether the pipe or the helper's own link
/// is the bottleneck. A link that drops large packets is measured with smaller segments. The tests
/// take as much data as the links carry in that time, which counts for a helper's monthly budget:
/// at 100 Mbit/s and with --seconds 4, 75 MB in each direction, and as much again over the pipe of
/// a helper. A link whose cap by the policy is used up is not measured, and a test ends before it
/// has moved all that a cap leaves. Over a helper this holds for each run alone: the primary does
/// not count its tests. Other traffic goes on meanwhile, and takes its part. Ctrl-C ends it at
/// once.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo mpbond speed                   every path of /etc/mpbond/primary.toml
  sudo mpbond speed wlan0 \"my phone\"  these only
  mpbond speed --config primary.toml --json
  mpbond speed --over-cap             also links whose caps are used up

Exit code 0 when everything was measured, 1 otherwise, 2 when the configuration is wrong.")]
pub(super) struct SpeedArgs {
    /// Names of paths and helpers. Otherwise all.
    names: Vec<String>,
    /// The configuration. Otherwise primary.toml in /etc/mpbond (root) or ~/.config/mpbond.
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Time of each measurement in seconds.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 4,
        value_parser = clap::value_parser!(u8).range(1..=20)
    )]
    seconds: u8,
    /// Measure links although their caps are used up, and beyond what the caps leave.
    #[arg(long)]
    over_cap: bool,
    /// Print JSON, for programs. Rates are in Mbit/s.
    #[arg(long)]
    json: bool,
}

/// Result of one measurement.
#[derive(Debug, Serialize)]
struct Measurement {
    name: String,
    /// `path`, `helper` (from end to end) or `pipe`.
    kind: &'static str,
    down_mbps: Option<f64>,
    up_mbps: Option<f64>,
    /// Maximum payload of a segment, where larger ones did not pass.
    max_segment_bytes: Option<u32>,
    error: Option<String>,
}

impl Measurement {
    fn new(kind: &'static str, name: &str, measured: &anyhow::Result<Rates>) -> Self {
        let rates = measured.as_ref().ok();
        let without_up = rates.filter(|rates| rates.up.is_none());
        let error = measured.as_ref().err().map(|e| format!("{e:#}"));
        Self {
            name: name.to_owned(),
            kind,
            down_mbps: rates.map(|r| r.down.mbps()),
            up_mbps: rates.and_then(|r| r.up).map(BitRate::mbps),
            max_segment_bytes: rates.and_then(|r| r.max_segment_bytes),
            error: error.or_else(|| Some(without_up.map(|_| TooLittle)?.to_string())),
        }
    }

    fn label(&self) -> String {
        match self.kind {
            "pipe" => format!("pipe to {}", self.name),
            _ => self.name.clone(),
        }
    }

    fn line(&self, width: usize) -> String {
        let name = match self.kind {
            "pipe" => format!("  {}", self.label()),
            _ => self.label(),
        };
        let error = self.error.as_deref().unwrap_or_default();
        let [down, up] = [self.down_mbps, self.up_mbps].map(|mbps| mbps.map(human::rate));
        match (down, up) {
            (Some(down), Some(up)) => format!("{name:width$}  down {down:>11}  up {up:>11}\n"),
            (Some(down), None) => {
                format!("{name:width$}  down {down:>11}  up not measured: {error}\n")
            }
            (None, _) => format!("{name:width$}  not measured: {error}\n"),
        }
    }
}

impl SpeedArgs {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let file = self.config.clone();
        let file = file.unwrap_or_else(|| config_file(Role::Primary));
        let config = PrimaryConfig::load(&file).map_err(Failure::input)?;
        let known = |name: &&String| {
            let paths = config.paths.iter().map(|p| &p.name);
            paths
                .chain(config.helpers.iter().map(|h| &h.name))
                .any(|n| n == *name)
        };
        if let Some(name) = self.names.iter().find(|name| !known(name)) {
            return Err(Failure::input(format_args!(
                "no path or helper of {} is called \"{name}\"",
                file.display()
            )));
        }
        let identity = Identity::load(&config.identity).map_err(|e| {
            let again = command("speed", Role::Primary, &file);
            Failure::run(format_args!("{e}; this needs the device's key: {again}"))
        })?;
        let caps = match self.over_cap {
            true => BTreeMap::new(),
            false => left(&config).map_err(Failure::run)?,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Failure::run)?;
        let all = LocalSet::new().block_on(&runtime, self.measure(&config, &identity, &caps))?;
        if self.json {
            let text = serde_json::to_string_pretty(&all).map_err(Failure::run)?;
            print(&format!("{text}\n"))?;
        } else {
            print(&conclusions(&all))?;
        }
        Ok(match all.iter().all(|m| m.error.is_none()) {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        })
    }

    /// Measures one after the other, and prints each result as it comes.
    async fn measure(
        &self,
        config: &PrimaryConfig,
        identity: &Identity,
        caps: &BTreeMap<String, Left>,
    ) -> Result<Vec<Measurement>, Failure> {
        let span = Span {
            warm_up: WARM_UP,
            measured: Duration::from_secs(self.seconds.into()),
        };
        let test = SpeedTest::new(config, identity, span);
        let is_asked = |name: &String| self.names.is_empty() || self.names.contains(name);
        let paths = config.paths.iter().map(|p| p.name.chars().count());
        let helpers = config.helpers.iter();
        let width = paths
            .chain(helpers.map(|h| "  pipe to ".len() + h.name.chars().count()))
            .max()
            .unwrap_or_default();
        let mut all = Vec::new();
        let mut note = |measurement: Measurement| {
            let line = measurement.line(width);
            all.push(measurement);
            match self.json {
                true => Ok(()),
                false => print(&line),
            }
        };
        for (link, path) in (0..).map(LinkId).zip(&config.paths) {
            if is_asked(&path.name) {
                let rates = test.path(link, path, caps.get(&path.name)).await;
                note(Measurement::new("path", &path.name, &rates))?;
            }
        }
        for (link, helper) in (config.paths.len()..).map(LinkId).zip(&config.helpers) {
            if is_asked(&helper.name) {
                let rates = test.through(link, helper, caps.get(&helper.name)).await;
                note(Measurement::new("helper", &helper.name, &rates))?;
                let rates = test.pipe(helper).await;
                note(Measurement::new("pipe", &helper.name, &rates))?;
            }
        }
        Ok(all)
    }
}

/// What the figures mean, in sentences.
fn conclusions(all: &[Measurement]) -> String {
    let mut text = String::from("\n");
    for measured in all {
        if let Some(bytes) = measured.max_segment_bytes {
            text += &format!(
                "{}: large packets do not pass; measured with segments of {bytes} octets.\n",
                measured.label()
            );
        }
    }
    for through in all.iter().filter(|m| m.kind == "helper") {
        let pipe = all
            .iter()
            .find(|m| m.kind == "pipe" && m.name == through.name);
        let limited =
            |of: fn(&Measurement) -> Option<f64>| Some(of(through)? >= OF_THE_PIPE * of(pipe?)?);
        let (Some(down), Some(up)) = (limited(|m| m.down_mbps), limited(|m| m.up_mbps)) else {
            continue;
        };
        let bottleneck = match (down, up) {
            (true, true) => "the pipe is the bottleneck in both directions",
            (false, false) => "the helper's own link is the bottleneck in both directions",
            (true, false) => "the pipe is the bottleneck down, the helper's own link up",
            (false, true) => "the helper's own link is the bottleneck down, the pipe up",
        };
        text += &format!("{}: {bottleneck}.\n", through.name);
    }
    let ways = || all.iter().filter(|m| m.kind != "pipe" && m.error.is_none());
    if ways().count() > 1 {
        let sum = |of: fn(&Measurement) -> Option<f64>| human::rate(ways().filter_map(of).sum());
        text += &format!(
            "Together: {} down, {} up, where no two share a link.\n",
            sum(|m| m.down_mbps),
            sum(|m| m.up_mbps)
        );
    }
    match text.as_str() {
        "\n" => String::new(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(kind: &'static str, name: &str, down: f64, up: f64) -> Measurement {
        let (down, up) = (BitRate::from_mbps(down), BitRate::from_mbps(up));
        let rates = Rates {
            down,
            up: Some(up),
            max_segment_bytes: None,
        };
        Measurement::new(kind, name, &Ok(rates))
    }

    #[test]
    fn the_bottleneck_is_named() {
        for (pipe, bottleneck) in [
            ((5.0, 5.1), "the pipe is the bottleneck in both directions"),
            (
                (50.0, 50.0),
                "the helper's own link is the bottleneck in both directions",
            ),
            (
                (5.2, 20.0),
                "the pipe is the bottleneck down, the helper's own link up",
            ),
            (
                (20.0, 5.2),
                "the helper's own link is the bottleneck down, the pipe up",
            ),
        ] {
            let all = [
                measured("path", "wifi", 8.0, 4.0),
                measured("helper", "phone", 5.0, 5.0),
                measured("pipe", "phone", pipe.0, pipe.1),
            ];
            let expected = format!(
                "\nphone: {bottleneck}.\n\
                 Together: 13.0 Mbit/s down, 9.00 Mbit/s up, where no two share a link.\n"
            );
            assert_eq!(conclusions(&all), expected);
        }
    }

    #[test]
    fn nothing_is_concluded_from_a_single_path_or_a_failure() {
        let failed = Measurement::new("pipe", "phone", &Err(anyhow::anyhow!("refused")));
        assert_eq!(failed.line(14), "  pipe to phone  not measured: refused\n");
        let all = [measured("helper", "phone", 5.0, 5.0), failed];
        assert_eq!(conclusions(&all), "");
    }

    #[test]
    fn a_rate_down_is_kept_where_a_cap_leaves_too_little_for_the_other_direction() {
        let rates = Rates {
            down: BitRate::from_mbps(8.0),
            up: None,
            max_segment_bytes: None,
        };
        let line = Measurement::new("path", "wifi", &Ok(rates)).line(4);
        assert_eq!(
            line,
            format!("wifi  down 8.00 Mbit/s  up not measured: {TooLittle}\n")
        );
    }

    #[test]
    fn segments_that_are_smaller_than_usual_are_named() {
        let small = Measurement {
            max_segment_bytes: Some(536),
            ..measured("pipe", "phone", 5.0, 5.0)
        };
        assert_eq!(
            conclusions(&[small]),
            "\npipe to phone: large packets do not pass; measured with segments of 536 octets.\n"
        );
    }

    #[test]
    fn lines_have_columns() {
        let line = measured("path", "wifi", 8.0, 1_234.0).line(6);
        assert_eq!(line, "wifi    down 8.00 Mbit/s  up 1.23 Gbit/s\n");
    }
}
