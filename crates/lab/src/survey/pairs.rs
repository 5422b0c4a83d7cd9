//! Settings of recorded links, from an experiment file.

use std::path::Path;
use std::str::FromStr;

use mpbond_radio::Profiles;

use super::setting::{Link, Setting};
use crate::error::{Error, Result};
use crate::experiment::Experiment;
use crate::simulate::two_way;

/// File with the recorded pairs of the MPBond experiments.
pub const PAIRS_FILE: &str = "experiments/mpbond/profiles.toml";

/// Pairs of recorded links, by their use (ADR 0022): the first of the file, the third and so on are
/// for tuning, the others for reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SurveyPairs {
    /// Those for tuning.
    Tuning,
    /// Those for reports.
    Report,
    /// All of them.
    All,
}

impl FromStr for SurveyPairs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "tuning" => Ok(Self::Tuning),
            "report" => Ok(Self::Report),
            "all" => Ok(Self::All),
            _ => Err("allowed are tuning, report and all".to_owned()),
        }
    }
}

impl SurveyPairs {
    /// Whether it contains pair `number` of the file, counted from 0.
    pub(super) fn contain(self, number: u32) -> bool {
        match self {
            Self::Tuning => number.is_multiple_of(2),
            Self::Report => !number.is_multiple_of(2),
            Self::All => true,
        }
    }
}

/// Settings of the file at `path`, numbered as in the file, and a remark on those whose recordings
/// are missing. Each consists of a direct link, the first helper's pipe, and its uplink.
///
/// # Errors
/// When the file or a recording cannot be read, or no setting has all its recordings.
pub(super) fn read(path: &Path) -> Result<(Vec<Setting>, Option<String>)> {
    let mut e = Experiment::load(path)?;
    let left_out = e.leave_out_missing_recordings();
    let wrong = |what: &str| Error::Experiment(format!("{}: {what}", path.display()));
    let helper = e.helpers().next().map(|h| h.name.get_ref());
    let links = [
        ("ps", e.direct_links().next()),
        ("pipe", helper.and_then(|helper| e.pipe_of(helper))),
        ("hs", helper.and_then(|helper| e.uplink_of(helper))),
    ];
    let profiles = Profiles::shipped().map_err(Error::run)?;
    let options = match path == Path::new(PAIRS_FILE) {
        true => "--trace-pairs".to_owned(),
        false => format!("--trace-pairs --pairs-file {}", path.display()),
    };
    let mut settings = Vec::new();
    for (number, setting) in (0..).zip(&e.settings) {
        let name = setting.name.get_ref();
        let mut workloads = e.workloads.iter();
        let Some(workload) = workloads.find(|w| w.setting_name() == Some(name)) else {
            continue;
        };
        let link = |(name, link): (&'static str, Option<_>)| {
            let link = link.ok_or_else(|| {
                wrong("recorded pairs need a direct link, and a helper with a pipe and an uplink")
            })?;
            if !workload.on(link).changes.is_empty() {
                return Err(wrong("links that change are not surveyed"));
            }
            let both = two_way(&e, Some(workload), link, &profiles)?;
            let (down, up) = (both.down, both.up);
            Ok(Link { name, down, up })
        };
        settings.push(Setting {
            seed: 0,
            number,
            pair: Some(name.clone()),
            options: options.clone(),
            rough: false,
            links: links.into_iter().map(link).collect::<Result<_>>()?,
        });
    }
    if settings.is_empty() {
        let why = left_out.as_deref().unwrap_or("it has no settings");
        return Err(wrong(&format!("no recorded pairs; {why}")));
    }
    Ok((settings, left_out))
}
