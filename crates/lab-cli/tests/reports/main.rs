//! Reports in Chromium: what a reader sees at the width of a desk and of a telephone, by day and
//! by night, and what the timeline does at keys, clicks and the wheel.
//!
//! `MPBOND_TEST_SHOW=FOLDER` has each page written there as PNG.
#![allow(clippy::unwrap_used, clippy::panic)] // of tests

mod inputs;
mod long;
mod timeline;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use mpbond_testing::browser::{self, Page};
use mpbond_testing::{Need, Program};
use tempfile::TempDir;

/// `mpbond-lab`.
const LAB: Program = Program::new(env!("CARGO_BIN_EXE_mpbond-lab"));

/// Environment variable: folder for pictures of all pages.
const SHOW: &str = "MPBOND_TEST_SHOW";

/// Widths and heights of windows: on a desk, and of a telephone.
const WINDOWS: [(u32, u32); 2] = [(1280, 900), (390, 844)];

/// A page of a browser, where there is one, and a folder for the report's files. The page looks for
/// its own faults.
fn browse(test: impl FnOnce(&mut Page, &Path)) {
    browse_as_it_is(|page, folder| {
        page.run_first(include_str!("audit.js"));
        test(page, folder);
    });
}

/// The same without the search for faults, which takes time. One browser runs at a time.
fn browse_as_it_is(test: impl FnOnce(&mut Page, &Path)) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(why) = browser::is_missing() {
        return Need::Chromium.is_missing(why);
    }
    let own = TempDir::new().unwrap();
    let files = TempDir::new().unwrap();
    let mut page = Page::new(own.path());
    test(&mut page, files.path());
}

/// Checks how each page looks in every window, light and dark.
fn look(page: &mut Page, pages: &[PathBuf]) {
    look_in(page, pages, &WINDOWS, &["light", "dark"]);
}

fn look_in(page: &mut Page, files: &[PathBuf], windows: &[(u32, u32)], modes: &[&str]) {
    // Where each fault is.
    let mut faults: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files {
        page.open(file);
        let name = file.file_stem().unwrap().to_str().unwrap();
        for (width, height) in windows {
            for mode in modes {
                page.resize(*width, *height);
                page.darken(*mode == "dark");
                let place = format!("{width} px, {mode}");
                let seen = page.eval("audit()");
                let seen = seen.as_array().unwrap().iter();
                for fault in seen {
                    let fault = format!("{name}: {}", fault.as_str().unwrap());
                    faults.entry(fault).or_default().push(place.clone());
                }
                if let Some(folder) = std::env::var_os(SHOW) {
                    let picture = format!("{name}-{width}-{mode}.png");
                    page.save_picture(&Path::new(&folder).join(picture));
                }
            }
        }
        for fault in page.faults() {
            faults.entry(format!("{name}: {fault}")).or_default();
        }
    }
    let lines = faults
        .iter()
        .map(|(fault, places)| format!("{fault} ({})", places.join("; ")));
    let lines: Vec<String> = lines.collect();
    assert!(
        lines.is_empty(),
        "{} faults:\n{}",
        lines.len(),
        lines.join("\n")
    );
}

/// Every kind of fault is found.
#[test]
fn faults_of_a_page_are_seen() {
    browse(|page, folder| {
        let file = folder.join("faulty.html");
        std::fs::write(&file, include_str!("faulty.html")).unwrap();
        page.resize(1280, 900);
        page.open(&file);
        let audit = page.eval("audit()");
        let audit = audit.as_array().unwrap().iter();
        let mut faults: Vec<String> = audit.map(|f| f.as_str().unwrap().to_owned()).collect();
        faults.extend(page.faults());
        for fault in [
            "contrast 2.8: \"Pale words\"",
            "contrast 1.9: \"Pale hint\"",
            "the page is 30",
            "beyond the window: \"Words that begin",
            "cut without a title: \"A name",
            "clipped on the canvas: \"beyond\"",
            "overlap on the canvas: \"one\" and \"two\"",
            "contrast 2.8 on the canvas: \"one\"",
            "clipped in \"Faulty\": \"clipped words\"",
            "overlap in \"Faulty\": \"other words\" and \"words on\"",
            "6.0 px in \"Faulty\": \"small\"",
            "cut without a title in \"Faulty\": \"cut…\"",
            "not a sentence: \"Faulty\"",
            "no ticks in \"Faulty\"",
            "no grid in \"Faulty\"",
            "a tick without a grid line in \"Faulty\"",
            "a request: http://192.0.2.1/elsewhere",
        ] {
            let found = faults.iter().any(|f| f.starts_with(fault));
            assert!(found, "{fault} is not in {faults:#?}");
        }
        for word in ["an error", "thrown"] {
            let found = faults.iter().any(|f| f.contains(word));
            assert!(found, "{word} is not in {faults:#?}");
        }
    });
}

#[test]
fn an_experiments_report_is_readable() {
    browse(|page, folder| {
        let record = inputs::experiment(folder);
        let report = inputs::report(folder, "experiment", &record);
        look(page, &[report]);
    });
}

#[test]
fn a_report_of_a_busy_machine_has_pictures() {
    browse(|page, folder| {
        let record = inputs::busy(folder);
        let report = inputs::report(folder, "busy", &record);
        look(page, &[report]);
        let pictures = page.eval("document.querySelectorAll('.chart svg').length");
        assert!(pictures.as_u64().unwrap() > 3, "{pictures}");
        let warning = page.eval("document.querySelector('.warning').innerText");
        let warning = warning.as_str().unwrap();
        assert!(
            warning.starts_with("Some rows have no fit transfer"),
            "{warning}"
        );
    });
}

#[test]
fn a_surveys_page_is_readable() {
    browse(|page, folder| {
        let html = folder.join("survey.html");
        let survey = "lab survey --quiet --settings 8 --seed 3 --seeds 2 --devices 2 \
                      --transfer 64KiB --transfer 512KiB \
                      --start joined --start cold";
        let out = ["--html", html.to_str().unwrap()];
        LAB.ok(&survey
            .split(' ')
            .chain(out)
            .filter(|a| !a.is_empty())
            .collect::<Vec<_>>());
        look(page, &[html]);
    });
}

#[test]
fn a_traces_report_is_readable() {
    browse(|page, folder| {
        let reports = [
            inputs::trace(folder, "switches", &inputs::switches()),
            inputs::trace(folder, "samples", &inputs::samples()),
        ];
        look(page, &reports);
    });
}

#[test]
fn a_suites_page_is_readable() {
    browse(|page, folder| {
        let suite = inputs::suite(folder);
        look(page, &[suite]);
        let pictures = page.eval("document.querySelectorAll('.chart svg').length");
        assert!(pictures.as_u64().unwrap() > 3, "{pictures}");
    });
}

#[test]
fn pictures_and_those_of_the_documents_are_readable() {
    browse(|page, folder| {
        let mut pictures = inputs::pictures(folder);
        pictures.extend(inputs::documents());
        // A picture has a size and colours of its own.
        look_in(page, &pictures, &WINDOWS[..1], &["light"]);
    });
}
