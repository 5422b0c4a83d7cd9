//! The timeline's one time base, keys, search, legend and wheel.

use mpbond_testing::browser::Page;

use crate::{browse, inputs};

/// Edges of the timeline's lanes, in pixels from its own.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 14.0;

/// The time at both ends of the timeline, in seconds, by the labels of its ticks.
fn view(page: &mut Page) -> (f64, f64) {
    let ticks = page.eval(
        "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(\
         labels().filter(l => / s$/.test(l.text)).map(l => [(l.left + l.right) / 2, \
         parseFloat(l.text)])))))",
    );
    let ticks = ticks.as_array().unwrap().iter();
    let ticks: Vec<(f64, f64)> = ticks
        .map(|t| (t[0].as_f64().unwrap(), t[1].as_f64().unwrap()))
        .collect();
    let width = page.eval("document.getElementById('timeline').clientWidth");
    // The first and the last may be moved, so that they are not clipped.
    let (a, b) = match ticks.as_slice() {
        [_, a, .., b, _] => (a, b),
        [a, .., b] => (a, b),
        few => panic!("{few:?}"),
    };
    let per_pixel = (b.1 - a.1) / (b.0 - a.0);
    let at = |x: f64| a.1 + (x - a.0) * per_pixel;
    (at(LEFT), at(width.as_f64().unwrap() - RIGHT))
}

fn is_near((a, b): (f64, f64), (c, d): (f64, f64)) -> bool {
    let tolerance = 0.02 * (b - a).max(d - c);
    (a - c).abs() < tolerance && (b - d).abs() < tolerance
}

/// Checks that both views are the same.
fn same(one: (f64, f64), other: (f64, f64)) {
    assert!(is_near(one, other), "{one:?} is not {other:?}");
}

fn text(page: &mut Page, selector: &str) -> String {
    let text = page.eval(&format!("document.querySelector('{selector}').innerText"));
    text.as_str().unwrap().to_owned()
}

/// A page with the timeline of [`inputs::switches`], 1.8 s long.
fn with_timeline(test: impl FnOnce(&mut Page)) {
    browse(|page, folder| {
        let report = inputs::trace(folder, "timeline", &inputs::switches());
        page.resize(1280, 900);
        page.open(&report);
        test(page);
        let faults = page.faults();
        assert!(faults.is_empty(), "{faults:?}");
    });
}

#[test]
fn times_in_tables_and_findings_are_those_of_the_timeline() {
    with_timeline(|page| {
        same(view(page), (0.0, 1.8));
        let time: f64 = text(page, "button.at").parse().unwrap();
        assert!(text(page, ".first li").contains("from 0.0023 s"), "{time}");
        page.click("button.at");
        let (from, to) = view(page);
        // The stall, which took 121.1 ms, and as much before and after it.
        let long = 0.1211;
        let shown = from <= time && time + long <= to && to - from < 4.0 * long;
        assert!(shown, "{time} s is not in {from} s to {to} s");
        // The pointer says the same of the place where it is.
        let place = (time + long / 3.0 - from) / (to - from);
        page.eval(&format!(
            "(() => {{ const box = document.getElementById('timeline').getBoundingClientRect();
               const x = box.left + {LEFT} + {place} * (box.width - {LEFT} - {RIGHT});
               const event = {{ clientX: x, clientY: box.bottom - 13, bubbles: true }};
               document.getElementById('timeline').dispatchEvent(new PointerEvent('pointermove',
                 event)); }})()"
        ));
        let tip = text(page, "#tip");
        let (at, what) = tip.split_once(" s: ").unwrap();
        let error = at.parse::<f64>().unwrap() - (time + long / 3.0);
        assert!(error.abs() < long / 20.0, "{tip}");
        assert!(what.contains("voice UI hand-over"), "{tip}");
    });
}

#[test]
fn keys_move_zoom_and_show_all() {
    with_timeline(|page| {
        let all = view(page);
        page.click("#timeline");
        // The middle of the canvas is not that of the lanes.
        page.eval("document.getElementById('timeline').dispatchEvent(new Event('pointerleave'))");
        for (key, opposite) in [("+", "-"), ("=", "-"), ("w", "s")] {
            page.press(key);
            let (from, to) = view(page);
            let zoomed = to - from;
            assert!((zoomed / 1.8 - 0.6).abs() < 0.02, "{key}: {zoomed}");
            for (right, left) in [("ArrowRight", "ArrowLeft"), ("d", "a")] {
                page.press(right);
                same(view(page), (from + 0.2 * zoomed, to + 0.2 * zoomed));
                page.press(left);
                same(view(page), (from, to));
            }
            page.press(opposite);
            same(view(page), all);
        }
        for key in ["Home", "0"] {
            page.press("+");
            page.press("+");
            assert!(!is_near(view(page), all));
            page.press(key);
            same(view(page), all);
        }
        // Elsewhere the keys are those of the page.
        page.click("h1");
        page.eval("window.scrollTo(0, 100)");
        page.press("Home");
        page.until("window.scrollY === 0");
        same(view(page), all);
    });
}

/// A window that is made smaller or captured may leave it no width for a moment.
#[test]
fn a_timeline_without_width_waits_for_one() {
    with_timeline(|page| {
        let all = view(page);
        let labels = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => \
             done(labels().length))))";
        for width in ["0", "70px"] {
            page.eval(&format!(
                "document.getElementById('timeline').style.width = '{width}'; \
                 dispatchEvent(new Event('resize'))"
            ));
            let labels = page.eval(labels).as_u64().unwrap();
            assert!(labels < 100, "{width}: {labels}");
        }
        page.eval("document.getElementById('timeline').style.width = ''");
        page.until("document.getElementById('timeline').clientWidth > 1000");
        same(view(page), all);
    });
}

#[test]
fn search_finds_shows_and_ends() {
    with_timeline(|page| {
        let all = view(page);
        page.click("h1");
        page.press("/");
        page.until("document.activeElement.id === 'search'");
        for letter in "RENDER".chars() {
            page.press(&letter.to_string());
        }
        assert_eq!(text(page, "#found"), "27 tasks, 270 runs");
        // There a key is a letter.
        page.press("0");
        assert_eq!(text(page, "#found"), "0 tasks, 0 runs");
        same(view(page), all);
        page.press("Backspace");
        assert_eq!(text(page, "#found"), "27 tasks, 270 runs");
        page.press("Enter");
        let found = text(page, "#found");
        let (lane, at) = found.split_once(", ").unwrap();
        let at: f64 = at.trim_end_matches(" s").parse().unwrap();
        let (from, to) = view(page);
        assert!(
            lane.starts_with("CPU ") && (from..to).contains(&at),
            "{found}: {from}, {to}"
        );
        page.press("Escape");
        assert_eq!(text(page, "#found"), "");
        let search = "[document.getElementById('search').value, document.activeElement.tagName]";
        assert_eq!(page.eval(search), serde_json::json!(["", "BODY"]));
        page.press("0");
        same(view(page), all);
    });
}

#[test]
fn an_entry_of_the_legend_shows_its_task_alone_and_all_again() {
    with_timeline(|page| {
        let entry = "#legend button";
        let state = "document.querySelector('#legend button').getAttribute('aria-pressed')";
        assert_eq!(page.eval(state), "false");
        let name = text(page, entry);
        let (task, _) = name.rsplit_once(", ").unwrap();
        let task = task.to_owned();
        page.click(entry);
        page.until(&format!("{state} === 'true'"));
        let search = page.eval("document.getElementById('search').value");
        assert_eq!(search.as_str(), Some(task.as_str()));
        assert!(text(page, "#found").starts_with("1 task, "));
        page.click(entry);
        page.until(&format!("{state} === 'false'"));
        assert_eq!(text(page, "#found"), "");
    });
}

#[test]
fn the_wheel_scrolls_the_page_and_zooms_with_ctrl() {
    with_timeline(|page| {
        page.click("#timeline");
        page.press("+");
        let before = view(page);
        let top = page.eval("window.scrollY");
        page.wheel("#timeline", 120.0, false);
        page.until(&format!("window.scrollY > {top}"));
        same(view(page), before);
        page.wheel("#timeline", -400.0, true);
        let (from, to) = view(page);
        assert!(to - from < 0.6 * (before.1 - before.0), "{from} to {to}");
        page.drag("#timeline", 100.0);
        let dragged = view(page);
        assert!(dragged.0 < from, "{dragged:?}, before {from}");
    });
}

/// Labels within runs, which are as many colours as there are tasks.
#[test]
fn labels_of_runs_are_readable() {
    with_timeline(|page| {
        page.click("#timeline");
        for dark in [false, true] {
            page.darken(dark);
            page.press("0");
            page.eval("document.querySelectorAll('button.at')[0].click()");
            for _ in 0..40 {
                page.press("ArrowRight");
            }
            for _ in 0..7 {
                page.press("+");
            }
            view(page);
            let named = page.eval("labels().filter(l => /[(]/.test(l.text)).length");
            assert!(named.as_u64().unwrap() > 3, "{named}");
            let faults = page.eval("audit()");
            assert_eq!(faults, serde_json::json!([]), "dark: {dark}");
        }
    });
}
