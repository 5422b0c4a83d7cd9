//! Pages and videos in virtual time.

use std::path::Path;

use super::{NO_MORE, SINGLE, experiment, figure, links, mpbond, of, run, seconds, workload};
use crate::experiment::{Experiment, Scope};
use crate::figures::quantity::Quantity;
use crate::record::{LinkProgress, Transfer};
use crate::schedule::duration::{Bounds, time_limit};
use crate::transfer::ideal::ideal_time;

#[test]
fn pages_load_over_their_connections() {
    let page = |more: &str| format!("page = {{ objects = [{more} }}");
    let six = "2000, 2000, 2000, 2000, 2000, 2000]";
    let text = links([8, 10, 5], NO_MORE)
        + &mpbond("mpbond", "")
        + SINGLE
        + &workload("small", "down", &page(&format!("2000, {six}")))
        + &workload(
            "in turn",
            "down",
            &page(&format!("2000, {six}, connections = 1")),
        )
        + &workload("large", "down", &page("100_000, 50_000, 50_000]"))
        + &workload("file", "down", "bytes = \"1 MiB\"");
    let e = experiment(&text);
    assert_eq!(Scope::of(experiment(&text)), Scope::All);
    let all = run(&e, 0, 2);
    let near = |scheme, workload, expected: f64| {
        let took = figure(&all, scheme, workload, Quantity::PageS);
        let ratio = took / expected;
        assert!(
            (0.95..1.05).contains(&ratio),
            "{scheme}, {workload}: {took}, not {expected}"
        );
    };
    // Round trips of 51 ms, one more for each new connection, and 3 ms for the last two packets.
    near("single", "small", 4.0 * 0.051 + 0.012);
    near("single", "in turn", 8.0 * 0.051 + 0.021);
    // Streams cost no round trip.
    near("mpbond", "small", 2.0 * 0.051 + 0.012);
    near("mpbond", "in turn", 7.0 * 0.051 + 0.021);
    // 10, 20 and 40 packets of 1.5 ms by 0.263 s; then 10, 20 and 5 over a new connection, behind
    // 35 over the old one.
    near("single", "large", 0.48);
    for scheme in ["mpbond", "single"] {
        for d in of(&all, scheme, "large") {
            assert_eq!(d.bytes, 200_000);
            assert_eq!(d.seconds, d.noticed[&Quantity::PageS]);
            assert_eq!(d.progress.last().map(|p| p.1), Some(d.bytes));
            assert!(d.ratio >= 1.0 && d.energy[0].joules > 0.0, "{d:?}");
        }
        // The transfer after a page begins when that is over.
        assert_eq!(of(&all, scheme, "file")[0].bytes, 1 << 20);
    }
    let text = |all: &[Transfer]| serde_json::to_string(all).unwrap();
    assert_eq!(text(&all), text(&run(&e, 0, 1)), "seeds replay");
}

#[test]
fn videos_play_and_stall() {
    let video = "video = { segment = \"2s\", length = \"24s\", ladder = [4] }";
    let text = links([2, 10, 5], NO_MORE)
        + &mpbond("mpbond", "")
        + SINGLE
        + &workload("video", "down", video)
        + &workload(
            "adaptive",
            "down",
            &video.replace("[4]", "[0.5, 1, 2]").replace("24s", "60s"),
        );
    assert_eq!(Scope::of(experiment(&text)), Scope::All);
    let all = run(&experiment(&text), 0, 2);
    let of_video = |scheme, quantity| figure(&all, scheme, "video", quantity);
    // A segment of 4 Mbit/s takes 4.15 s at 2. Playback begins with the second one and goes on with
    // the fifth, ninth and last.
    assert_eq!(of_video("single", Quantity::Stalls), 3.0);
    for (quantity, expected) in [
        (Quantity::StartupS, 8.3),
        (Quantity::StalledS, 21.5),
        (Quantity::StallRatio, 21.5 / 24.0),
        (Quantity::BitrateMbps, 4.0),
    ] {
        let ratio = of_video("single", quantity) / expected;
        assert!((0.95..1.05).contains(&ratio), "{quantity:?}: {ratio}");
    }
    let took = seconds(&all, "single", "video");
    assert!((49.5..51.0).contains(&took), "{took}");
    for d in of(&all, "single", "video") {
        assert_eq!(d.bytes, 12_000_000);
    }
    // Both paths carry it.
    assert_eq!(of_video("mpbond", Quantity::Stalls), 0.0);
    // 0.7 of 2 Mbit/s has room for the second of three rates only.
    let rate = |scheme| figure(&all, scheme, "adaptive", Quantity::BitrateMbps);
    let (one, both) = (rate("single"), rate("mpbond"));
    assert!((0.5..=1.0).contains(&one) && both > 1.3, "{one} {both}");
    assert_eq!(figure(&all, "single", "adaptive", Quantity::Stalls), 0.0);
}

#[test]
fn pages_load_beside_a_download() {
    let page = |more: &str| format!("page = {{ objects = [2000, 20_000, 20_000, 20_000]{more} }}");
    let text = links([8, 10, 5], NO_MORE)
        + &mpbond("mpbond", "")
        + SINGLE
        + &workload("beside", "down", &page(", bulk = true"))
        + &workload("alone", "down", &page(""))
        + &workload("file", "down", "bytes = \"1 MiB\"");
    let e = experiment(&text);
    assert_eq!(
        (e.workloads[0].most_bytes(), e.workloads[1].most_bytes()),
        (0, 62_000)
    );
    let all = run(&e, 0, 2);
    let page_s = |scheme, workload| figure(&all, scheme, workload, Quantity::PageS);
    for scheme in ["mpbond", "single"] {
        let (beside, alone) = (page_s(scheme, "beside"), page_s(scheme, "alone"));
        assert!(beside > alone, "{scheme}: {beside} {alone}");
        for d in of(&all, scheme, "beside") {
            // The download begins two seconds before the page and ends with it.
            assert!(
                (d.seconds - 2.0 - d.noticed[&Quantity::PageS]).abs() < 1e-6,
                "{d:?}"
            );
            // The last links before the primary carry those bytes, frames, copies and what the
            // reader has not got at the end: over two paths, also what came before bytes that the
            // helper still holds, 1.2 MB by its rates.
            let last = |link: &&LinkProgress| link.link != "hs";
            let carried = d.links.iter().filter(last).filter_map(|l| l.points.last());
            let carried: u64 = carried.map(|(_, bytes)| bytes).sum();
            let unread = carried as f64 / d.bytes as f64 - 1.0;
            let most = if scheme == "mpbond" { 0.6 } else { 0.15 };
            assert!((0.0..most).contains(&unread), "{scheme}: {unread}");
            assert_eq!(d.progress.last().map(|p| p.1), Some(d.bytes));
        }
        for d in of(&all, scheme, "alone") {
            assert!(!d.noticed.contains_key(&Quantity::BulkMbps));
        }
        assert_eq!(of(&all, scheme, "file")[0].bytes, 1 << 20);
    }
    // A page does not wait for the download; by plain TCP it waits in the same queue.
    let longer = |scheme| page_s(scheme, "beside") - page_s(scheme, "alone");
    assert!(
        longer("mpbond") < 0.1 && longer("single") > 0.3,
        "{}",
        longer("mpbond")
    );
}

#[test]
fn plans_and_limits_of_the_row_pages_leave_time_for_its_transfers() {
    let row = "/../../experiments/mpbond/pages.toml";
    let path = format!("{}{row}", env!("CARGO_MANIFEST_DIR"));
    let mut e = Experiment::load(Path::new(&path)).unwrap();
    e.repetitions = 1;
    let (mut planned_s, mut simulated_s) = (0.0, 0.0);
    for d in run(&e, e.seed, 2) {
        assert!(d.sha256_ok, "{:?}", d.unfit_because);
        let scheme = e.schemes.iter().find(|s| *s.name.get_ref() == d.name);
        let workload = e.workloads.iter().find(|w| *w.name.get_ref() == d.workload);
        let (scheme, workload) = (scheme.unwrap(), workload.unwrap());
        let ideal = ideal_time(&e, scheme, workload, workload.most_bytes().max(1)).unwrap();
        let limit = time_limit(&e, scheme, workload, ideal).unwrap();
        assert!(
            limit.as_secs_f64() >= 3.0 * d.seconds,
            "{}, {}: {limit:?} for {} s",
            d.name,
            d.workload,
            d.seconds
        );
        let planned = Bounds::default().of_client(&e, scheme, workload).unwrap();
        planned_s += planned.as_secs_f64();
        simulated_s += d.seconds;
    }
    let ratio = planned_s / simulated_s;
    assert!(
        (0.75..1.25).contains(&ratio),
        "{planned_s} s planned, {simulated_s} s simulated"
    );
}
