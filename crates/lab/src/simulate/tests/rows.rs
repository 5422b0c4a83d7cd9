//! Metered links, costs, chunk ends, batteries, and what is refused.

use super::{NO_MORE, SINGLE, experiment, figure, links, mpbond, of, run, virtual_only, workload};
use crate::figures::quantity::Quantity;
use crate::transfer::energy::Accountant;

#[test]
fn costs_and_standby_keep_bytes_from_metered_links() {
    // The link with the shorter delay is the metered one.
    let metered = ["metered = true", "", ""];
    let text = links([20, 20, 50], metered)
        + &mpbond("all", "")
        + &mpbond("costs", "costs = { ps = 1 }")
        + &mpbond("standby", "standby = [\"ps\"]")
        + &workload("file", "down", "bytes = \"4 MB\"")
        + &workload(
            "stream",
            "down",
            "stream = { rate = \"4 Mbit/s\", length = \"8s\" }",
        );
    let all = run(&virtual_only(&text).unwrap(), 0, 2);
    let mb = |scheme, workload| figure(&all, scheme, workload, Quantity::MeteredMb);
    // Half of the bytes with their headers, and acknowledgements.
    let half = mb("all", "file");
    assert!((1.8..2.4).contains(&half), "{half}");
    // Both links are needed for the file to be fast, and the other one carries the stream.
    let costs = mb("costs", "file");
    assert!((0.9..1.1).contains(&(costs / half)), "{costs} {half}");
    let (free, costs) = (mb("all", "stream"), mb("costs", "stream"));
    assert!(free > 0.5 && costs < 0.2 * free, "{free} {costs}");
    for workload in ["file", "stream"] {
        assert!(mb("standby", workload) < 0.02, "{workload}");
    }
    let file = workload("file", "down", "bytes = 1000");
    let unmetered = links([20, 20, 50], NO_MORE) + SINGLE + &file;
    let all = run(&experiment(&unmetered), 0, 2);
    let has = |d: &crate::record::Transfer| d.noticed.contains_key(&Quantity::MeteredMb);
    assert!(!of(&all, "single", "file").into_iter().any(has));
}

#[test]
fn links_on_standby_carry_data_while_a_signal_is_weak() {
    let signal = |dbm: &str| format!("signal_dbm = [[\"0s\", {dbm}]]");
    let text = |dbm: &str| {
        let more = [signal(dbm), String::new(), String::new()];
        links([4, 20, 50], more.each_ref().map(|more| &**more))
            + &mpbond("helped", "standby = [\"phone\"]\nweak_below = { ps = -60 }")
            + &mpbond("alone", "standby = [\"phone\"]")
            + &workload("file", "down", "bytes = \"2 MB\"")
    };
    let seconds = |dbm: &str, scheme: &str| {
        let all = run(&virtual_only(&text(dbm)).unwrap(), 0, 2);
        super::seconds(&all, scheme, "file")
    };
    // 4 s over the own link alone.
    assert!(seconds("-68", "helped") < 2.0);
    assert!(seconds("-68", "alone") > 4.0);
    assert!(seconds("-45", "helped") > 3.5);
    // It becomes weak during the transfer.
    let [early, late] = ["-45], [\"500ms\", -75", "-45], [\"2s\", -75"];
    let (early, late) = (seconds(early, "helped"), seconds(late, "helped"));
    assert!(early < 3.0 && (3.0..4.0).contains(&late), "{early} {late}");
}

#[test]
fn files_follow_each_other_over_one_stream() {
    let text = links([8, 10, 5], NO_MORE)
        + SINGLE
        + &mpbond("plain", "scheduler = \"pams\"\nworkloads = [\"files\"]")
        + &mpbond(
            "told",
            "scheduler = \"pams\"\nchunk_ends = true\nworkloads = [\"files\"]",
        )
        + &workload("files", "down", "files = [\"1 MB\", \"1 MB\"]");
    let all = run(&virtual_only(&text).unwrap(), 0, 2);
    for scheme in ["single", "plain", "told"] {
        let first = figure(&all, scheme, "files", Quantity::FirstFileS);
        for d in of(&all, scheme, "files") {
            assert_eq!(d.bytes, 2_000_000);
            assert!(
                first > 0.4 * d.seconds && first < 0.8 * d.seconds,
                "{first} {d:?}"
            );
        }
    }
    let seconds = |scheme| super::seconds(&all, scheme, "files");
    assert_ne!(
        seconds("plain"),
        seconds("told"),
        "the proxy has heard of no chunk"
    );
}

#[test]
fn a_battery_is_used_by_the_radios_of_its_device_and_helpers_have_joules_of_their_own() {
    let battery = "[[energy]]\nname = \"watch\"\nwwan = \"lte-2012\"\npipe = \"wifi-s4\"\n\
                   battery_wh.phone = 0.01\n";
    let file = workload("file", "down", "bytes = \"1 MB\"");
    let text = links([8, 10, 5], NO_MORE) + battery + SINGLE + &mpbond("helper", "") + &file;
    let all = run(&experiment(&text), 0, 2);
    for d in of(&all, "helper", "file") {
        let phone = &d.energy[1].devices[1];
        let percent = Quantity::BatteryPercent.of(d, Some("watch")).unwrap();
        assert!(
            (percent - phone.joules / 0.36).abs() < 1e-9,
            "{percent} {phone:?}"
        );
        assert!(percent > 10.0, "{percent}");
        assert_eq!(Quantity::BatteryPercent.of(d, Some("lte")), None);
        let [primary, helper] = &d.energy[1].devices[..] else {
            panic!("{:?}", d.energy[1].devices);
        };
        let joules = Quantity::HelperJoules.of(d, Some("watch")).unwrap();
        assert_eq!(joules, helper.joules_without_last_tail);
        assert_ne!(joules, primary.joules_without_last_tail);
    }
    for d in of(&all, "single", "file") {
        assert_eq!(Quantity::BatteryPercent.of(d, Some("watch")), None);
        assert_eq!(Quantity::HelperJoules.of(d, Some("watch")), None);
    }
    for (value, why) in [
        ("battery_wh.phone = 0.0", "battery_wh: more than 0"),
        ("battery_wh.phone = nan", "battery_wh: more than 0"),
        ("battery_wh.tablet = 1.0", "there is no host \"tablet\""),
    ] {
        let wrong = text.replace("battery_wh.phone = 0.01", value);
        let error = Accountant::all(&experiment(&wrong))
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn keys_of_rows_are_refused_with_place_and_reason() {
    let links = links([8, 10, 5], NO_MORE);
    let file = workload("file", "down", "bytes = 1000");
    let files = workload("files", "down", "files = [\"1 MB\", \"1 MB\"]");
    let with = |more: &str, workload: &str| links.clone() + &mpbond("m", more) + workload;
    let many = format!("files = [{}]", "1, ".repeat(17));
    for (text, why) in [
        (with("costs = { watch = 1 }", &file), "watch"),
        (with("costs = { phone = 256 }", &file), "256"),
        (
            with("paths = []\nstandby = [\"ps\"]", &file),
            "this scheme does not use ps",
        ),
        (with("standby = [\"watch\"]", &file), "watch"),
        (
            with("chunk_ends = true", &file),
            "chunk_ends is only for `files`",
        ),
        (
            with("", &workload("w", "down", "files = [\"1 MB\"]")),
            "2 to 16 of them",
        ),
        (
            with("", &workload("w", "down", "files = [\"1 MB\", 0]")),
            "of 1 B to 1 GiB",
        ),
        (with("", &workload("w", "down", &many)), "2 to 16 of them"),
        (with("", &files.replace("down", "up")), "only downloads"),
        (
            links.clone() + SINGLE + "chunk_ends = true\n" + &files,
            "only for `mpbond`",
        ),
    ] {
        let error = virtual_only(&text).map(|_| ()).unwrap_err().to_string();
        assert!(
            error.starts_with("tiny.toml:") && error.contains(why),
            "{error}"
        );
    }
    let real = |text: String| {
        let text = format!("{}{text}", super::HEAD);
        let parsed = crate::experiment::Experiment::parse("tiny.toml", &text);
        parsed.map(|_| ()).unwrap_err().to_string()
    };
    let error = real(with("costs = { phone = 1 }", &file));
    assert!(
        error.contains("costs, standby, weak_below, chunk_ends, users and ledger are only"),
        "{error}"
    );
    let seen = with("", &file).replace("down = 8\n", "down = 8\nsignal_dbm = [[\"0s\", -51]]\n");
    assert!(real(seen.clone()).contains("link \"ps\": signal_dbm is only for a file with"));
    for (text, why) in [
        (
            seen.replace("-51", "nan"),
            "link \"ps\": signal_dbm: times must be in order",
        ),
        (
            with("standby = [\"phone\"]\nweak_below = { ps = -60 }", &file),
            "scheme \"m\", weak_below: not a direct link of the scheme with a signal_dbm",
        ),
        (
            seen.replace("devices = 2", "devices = 2\nweak_below = { ps = -60 }"),
            "weak_below: no link is on `standby`",
        ),
        (
            seen.replace(
                "devices = 2",
                "devices = 2\nstandby = [\"ps\"]\nweak_below = { hs = 1 }",
            ),
            "not a direct link of the scheme",
        ),
    ] {
        let error = virtual_only(&text).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    let error = real(with("", &files));
    assert!(error.contains("files are only for a file with"), "{error}");
}
