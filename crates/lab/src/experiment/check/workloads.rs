//! Checks of workloads and settings.

use mpbond_sim::world::StreamClass;

use super::names::{unique, unknown};
use crate::error::Result;
use crate::experiment::application::Page;
use crate::experiment::file::Experiment;
use crate::experiment::place::Place;
use crate::experiment::terms::{Client, Direction, Role};
use crate::experiment::workload::MAX_BYTES;

const MAX_WORKLOADS: usize = 1000;

pub(super) fn settings(e: &Experiment, place: &Place) -> Result<()> {
    unique(place, "setting", e.settings.iter().map(|s| &s.name))?;
    if e.settings.len() * e.workloads.len() > MAX_WORKLOADS {
        return Err(place.error(None, "at most 1000 workloads, counted once in each setting"));
    }
    for setting in &e.settings {
        for (name, set) in &setting.links {
            let shaped = || e.links.iter().filter(|l| l.down.is_some()).map(|l| &l.name);
            if !shaped().any(|l| l == name) {
                return Err(place.at(name, unknown("link with rates", name, shaped())));
            }
            let changes = set.changes.iter().flatten();
            let losses = changes.clone().filter_map(|c| c.loss).chain(set.loss);
            let (setting, name_text) = (setting.name.get_ref(), name.get_ref());
            let wrong = |message: &str| {
                let text = format!("setting \"{setting}\", link \"{name_text}\": {message}");
                Err(place.at(name, text))
            };
            if losses.into_iter().any(|p| !(0.0..=1.0).contains(&p)) {
                return wrong("loss is a probability from 0 to 1");
            }
            if !changes.is_sorted_by_key(|c| c.at) {
                return wrong("its changes must be in the order of their times");
            }
        }
    }
    Ok(())
}

pub(super) fn workloads(e: &Experiment, place: &Place) -> Result<()> {
    unique(place, "workload", e.workloads.iter().map(|w| &w.name))?;
    for workload in &e.workloads {
        let name = workload.name.get_ref();
        let wrong = |message: &str| {
            let text = format!("workload \"{name}\": {message}");
            Err(place.at(&workload.name, text))
        };
        let kinds = [
            workload.video.is_some(),
            workload.page.is_some(),
            workload.stream.is_some(),
            !workload.files.is_empty(),
            workload.chunks.is_some(),
            workload.messages.is_some(),
            workload.length.is_some(),
            workload.bytes.0 > 0,
        ];
        if kinds.into_iter().filter(|kind| *kind).count() != 1 {
            return wrong(
                "bytes: from 1 B to 4 GiB, or one of video, page, stream, files, chunks, messages and \
                 for",
            );
        }
        if let Some(app) = workload.application() {
            if workload.direction == Direction::Up {
                return wrong("direction: an application only downloads");
            }
            if e.client != Client::Fetch {
                return wrong("applications need `client = \"fetch\"`");
            }
            if let Some(error_text) = app.error_text() {
                return wrong(error_text);
            }
        }
        if !workload.files.is_empty() && !e.simulated {
            return wrong("files are only for a file with `simulated = true`");
        }
        if workload.class != StreamClass::default() && e.client != Client::Fetch {
            return wrong("class needs `client = \"fetch\"`");
        }
        let of_page = workload.page_beside_download().map_or(0, Page::bytes);
        if workload.most_bytes().max(of_page) > MAX_BYTES {
            return wrong("bytes: at most 4 GiB in all");
        }
        for fault in &workload.faults {
            match (&fault.kill, fault.link()) {
                (Some(host), None) => {
                    if !matches!(e.role_of(host.get_ref()), Some(Role::Helper | Role::Proxy)) {
                        let may = e
                            .hosts
                            .iter()
                            .filter(|h| matches!(h.role, Role::Helper | Role::Proxy))
                            .map(|h| &h.name);
                        return Err(place.at(host, unknown("helper or proxy", host, may)));
                    }
                }
                (None, Some(link))
                    if fault.blackhole.is_none() || fault.down_with_error.is_none() =>
                {
                    let shaped = || e.links.iter().filter(|l| l.is_played()).map(|l| &l.name);
                    if !shaped().any(|l| l == link) {
                        return Err(place.at(link, unknown("link with rates", link, shaped())));
                    }
                }
                _ => {
                    return Err(place.at(
                        &workload.name,
                        format!(
                            "workload \"{name}\": a fault has one of `kill = \"HOST\"`, \
                             `blackhole = \"LINK\"` or `down_with_error = \"LINK\"`"
                        ),
                    ));
                }
            }
        }
    }
    Ok(())
}
