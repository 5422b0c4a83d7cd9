//! A small survey.

use super::*;

fn options(settings: u32) -> SurveyOptions {
    SurveyOptions {
        settings,
        seed: 3,
        only: None,
        seeds: 4,
        devices: vec![2],
        starts: vec![SurveyStart::Joined],
        directions: vec![Direction::Down],
        transfers: vec![Size(64 << 10), Size(512 << 10)],
        schemes: vec![SurveyScheme::default()],
        json: None,
        html: None,
        threads: Some(2),
        quiet: true,
    }
}

#[test]
fn rows_hold_their_bounds_and_can_be_measured_again() {
    let all = survey(&options(4)).unwrap();
    assert_eq!(all.settings.len(), 8);
    for row in &all.settings {
        assert_eq!(row.failed, 0, "{row:?}");
        assert!(row.ideal_seconds <= row.slow_start_seconds, "{row:?}");
        assert!(row.slow_start_seconds <= row.seconds, "{row:?}");
        assert!(
            row.slow_start_seconds <= row.clairvoyant_seconds.unwrap(),
            "{row:?}"
        );
        assert!((row.ratio - row.seconds / row.best_link_seconds).abs() < 1e-9);
        assert!(row.links.contains_key("ps_mbps") && !row.links.contains_key("hs2_mbps"));
    }
    let again = survey(&SurveyOptions {
        only: Some(2),
        threads: Some(1),
        ..options(4)
    });
    let again = again.unwrap().settings;
    assert_eq!(again.len(), 2);
    for (row, again) in all.settings[4..6].iter().zip(&again) {
        assert_eq!(row.seconds, again.seconds);
        assert_eq!(row.best_link_seconds, again.best_link_seconds);
    }
}

#[test]
fn groups_cover_each_size_and_all_of_them() {
    let report = survey(&options(3)).unwrap();
    // Settings 0 and 2 are smooth, 1 is rough; two sizes, and both together.
    let groups = &report.summary;
    let rows: Vec<usize> = groups.iter().map(|g| g.rows).collect();
    assert_eq!(rows, [2, 2, 4, 1, 1, 2]);
    for g in groups {
        assert!(
            g.ratio[0] <= g.ratio[1] && g.ratio[1] <= g.ratio[2],
            "{g:?}"
        );
        assert!(g.over_slow_start[0] >= 1.0, "{g:?}");
        assert!(g.worst.contains("--seed 3 --only "), "{}", g.worst);
    }
    let page = page::to_html(&report, "2026-11-22");
    assert_eq!(page.matches("<svg").count(), 2);
    assert!(!page.contains("NaN"), "{page}");
}

#[test]
fn numbers_of_devices_are_checked() {
    let wrong = SurveyOptions {
        devices: vec![1],
        ..options(1)
    };
    let error = survey(&wrong).unwrap_err();
    assert_eq!(error.exit_code(), 2);
}
