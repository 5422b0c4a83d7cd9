//! A small survey.

use super::*;

fn options(settings: u32) -> SurveyOptions {
    SurveyOptions {
        settings,
        seed: vec![3],
        pairs: None,
        pairs_file: PathBuf::new(),
        only: Vec::new(),
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
        only: vec![2],
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
    // A distribution of each kind of links, and the copies of downloads.
    assert_eq!(page.matches("<svg").count(), 3);
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

/// Three pairs of recorded links, of which the last lacks its recording. The PS-Path has
/// 20 Mbit/s for three seconds, then 0.5 Mbit/s.
fn pairs_file(folder: &Path) -> PathBuf {
    let recording: String = (0..20)
        .map(|second| format!("{second},{}\n", if second < 3 { 20.0 } else { 0.5 }))
        .collect();
    std::fs::write(folder.join("ps.csv"), recording).unwrap();
    let rate = |file: &str| format!("{{ profile = \"{file}\", unit = \"Mbit/s\" }}");
    let setting = |name: &str, file: &str| {
        format!(
            "[[setting]]\nname = \"{name}\"\nlink.lte = {{ down = {} }}\n",
            rate(file)
        )
    };
    let text = [
        r#"
name = "pairs"
host = [
    { name = "laptop", role = "primary" }, { name = "phone", role = "helper" },
    { name = "proxy", role = "proxy", address = "203.0.113.1" },
    { name = "web", role = "origin", address = "198.51.100.1" },
]
link = [
    { name = "lte", from = "laptop", to = "proxy", down = "5 Mbit/s", up = "5 Mbit/s" },
    { name = "pipe", from = "laptop", to = "phone", down = "1 Mbit/s", up = "1 Mbit/s" },
    { name = "hs", from = "phone", to = "proxy", down = "9 Mbit/s", up = "9 Mbit/s" },
    { name = "core", from = "proxy", to = "web" },
]
scheme = [{ name = "tcp", scheme = "single" }]
workload = [{ name = "file", direction = "down", bytes = "1 MB" }]
"#,
        &setting("first", "ps.csv"),
        &setting("second", "ps.csv"),
        &setting("third", "missing.csv"),
    ]
    .concat();
    let path = folder.join("pairs.toml");
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn recordings_begin_with_each_transfer() {
    let folder = tempfile::tempdir().unwrap();
    let of_pairs = |pairs| SurveyOptions {
        pairs: Some(pairs),
        pairs_file: pairs_file(folder.path()),
        starts: SurveyStart::ALL.to_vec(),
        transfers: vec![Size(2 << 20)],
        ..options(1)
    };
    let report = survey(&of_pairs(SurveyPairs::All)).unwrap();
    let names: Vec<_> = report
        .settings
        .iter()
        .map(|row| row.pair.as_deref())
        .collect();
    assert_eq!(
        names,
        [["first"; 4], ["second"; 4]]
            .concat()
            .into_iter()
            .map(Some)
            .collect::<Vec<_>>()
    );
    for row in &report.settings {
        // 2 MiB take 0.84 s at 20 Mbit/s, and 33 s at 0.5.
        assert!(row.seconds < 2.9 && row.best_link_seconds < 2.9, "{row:?}");
        assert!(
            row.ideal_seconds > 0.8 && row.ideal_seconds < row.seconds,
            "{row:?}"
        );
        assert_eq!(
            (row.links["ps_mbps"], row.links["ps_up_mbps"]),
            (3.425, 5.0)
        );
        assert!(
            row.replay.contains("--trace-pairs --pairs-file /"),
            "{}",
            row.replay
        );
    }
    // Recorded links are judged by copies alone.
    assert!(
        report
            .figures
            .iter()
            .all(|figure| !figure.name.contains("link"))
    );
    let numbers = |pairs| {
        let rows = survey(&of_pairs(pairs)).unwrap().settings;
        rows.iter().map(|row| row.setting).collect::<Vec<_>>()
    };
    assert_eq!(numbers(SurveyPairs::Tuning), [0; 4]);
    assert_eq!(numbers(SurveyPairs::Report), [1; 4]);
    let three = SurveyOptions {
        devices: vec![3],
        ..of_pairs(SurveyPairs::All)
    };
    assert_eq!(survey(&three).unwrap_err().exit_code(), 2);
}

#[test]
fn settings_of_several_seeds_are_one_survey() {
    let both = SurveyOptions {
        seed: vec![3, 4],
        ..options(2)
    };
    let report = survey(&both).unwrap();
    let seeds: Vec<_> = report
        .settings
        .iter()
        .map(|row| (row.seed, row.setting))
        .collect();
    let expected = [
        (3, 0),
        (3, 0),
        (3, 1),
        (3, 1),
        (4, 0),
        (4, 0),
        (4, 1),
        (4, 1),
    ];
    assert_eq!(seeds, expected.map(|(seed, setting)| (Some(seed), setting)));
    let last = report.settings.last().unwrap();
    assert!(
        last.replay.contains("--seed 4 --only 1 "),
        "{}",
        last.replay
    );
}

#[test]
fn long_transfers_are_fewer_and_each_number_of_devices_has_its_row() {
    let report = survey(&SurveyOptions {
        only: vec![2],
        seeds: 6,
        devices: vec![2, 3],
        transfers: vec![Size(64 << 10), Size(4 << 20)],
        ..options(1)
    });
    let rows = report.unwrap().settings;
    let of = |devices, size| {
        let row = |r: &&record::Row| r.devices == devices && r.transfer == Size(size);
        rows.iter().find(row).unwrap()
    };
    for devices in [2, 3] {
        assert_eq!(of(devices, 64 << 10).transfers, 6);
        assert_eq!(of(devices, 4 << 20).transfers, 4);
    }
    // What is simulated once for both numbers of devices is what each would have alone.
    let alone = survey(&SurveyOptions {
        only: vec![2],
        seeds: 6,
        devices: vec![3],
        transfers: vec![Size(64 << 10)],
        ..options(1)
    });
    let alone = &alone.unwrap().settings[0];
    let shared = of(3, 64 << 10);
    assert_eq!(alone.seconds, shared.seconds);
    assert_eq!(alone.best_link_seconds, shared.best_link_seconds);
    assert_eq!(alone.clairvoyant_seconds, shared.clairvoyant_seconds);
}

#[test]
fn the_lab_runs_over_the_settings_of_the_survey() {
    for seed in [102, 105] {
        let file = format!("../../experiments/survey-{seed}.toml");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        let (settings, _) = pairs::read(&path).unwrap();
        assert_eq!(settings.len(), 20);
        for ours in settings {
            let drawn = Setting::draw(seed, ours.number);
            let name = ours.pair.unwrap();
            assert_eq!(ours.links, drawn.links[..3], "seed {seed}, setting {name}");
            assert_eq!(name.ends_with(", rough"), drawn.rough, "{name}");
            assert_eq!(name.split(',').next(), Some(&*ours.number.to_string()));
        }
    }
}

#[test]
fn a_slow_path_of_unknown_rate_hardly_delays_a_short_transfer() {
    // 48 Mbit/s beside a helper of 1 Mbit/s whose delay is a third: it looks faster at first.
    let setting = SurveyOptions {
        seed: vec![2],
        only: vec![0],
        transfers: vec![Size(32 << 10)],
        ..options(1)
    };
    let row = survey(&setting).unwrap().settings.remove(0);
    assert_eq!(row.best_link, "own link", "{row:?}");
    assert!(row.ratio < 1.1, "{row:?}");
}
