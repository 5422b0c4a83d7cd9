//! Profiles load, and errors in them have place and reason.
// Helpers of tests may fail loudly, as the tests themselves.
#![allow(clippy::unwrap_used, clippy::panic)]

use mpbond_radio::profile::{ProfileError, Radios};
use mpbond_radio::{Placement, Profiles, Radio};

const LTE: &str = include_str!("../profiles/lte-2012.toml");
const WIFI: &str = include_str!("../profiles/wifi-s4.toml");
const PHONE: &str = include_str!("../profiles/pixel-2.toml");
const CPU: &str = include_str!("../profiles/cpu-pixel-2.toml");

fn error(text: &str) -> String {
    let error = Profiles::default().load("mine.toml", text).unwrap_err();
    let line = error.to_string();
    assert!(!line.contains('\n'), "one line: {line}");
    line
}

#[test]
fn every_shipped_profile_loads_and_names_others_that_exist() {
    let all = Profiles::shipped().unwrap();
    for name in all.names("radio") {
        Radio::new(all.radio(name).unwrap(), Placement::Live);
    }
    for name in [
        "lte-2012",
        "umts-2012",
        "5g-mmw-2020",
        "lte-2020-verizon",
        "wifi-s4",
        "watch-bt",
    ] {
        all.radio(name).unwrap();
    }
    for name in ["pixel-2", "nexus-6p", "nexus-5x", "lg-urbane"] {
        all.device(name).unwrap();
    }
    for name in all.names("device") {
        let device = &all.device(name).unwrap().parameters;
        for radio in device.interfaces.values() {
            all.radio(radio).unwrap();
        }
        all.cpu(device.cpu.as_deref().unwrap()).unwrap();
    }
}

#[test]
fn an_error_in_a_profile_has_its_place_and_reason() {
    for (text, expect) in [
        (
            LTE.replace("value = 1288.04", "value = -3.0"),
            "mine.toml:9: beta: -3 must not be negative",
        ),
        (
            LTE.replace("value = 1288.04", "value = nan"),
            "mine.toml:9: beta: NaN must not be negative",
        ),
        (
            LTE.replace("value = 1288.04", "value = 1e300"),
            "mine.toml:9: beta: ",
        ),
        (
            LTE.replace("beta = ", "bta = "),
            "mine.toml:9: bta: unknown field `bta`",
        ),
        (
            LTE.lines()
                .filter(|l| !l.starts_with("beta"))
                .collect::<Vec<_>>()
                .join("\n"),
            "missing field `beta`",
        ),
        (
            LTE.replace(
                "value = 1288.04, unit = \"mW\"",
                "value = 1288.04, unit = \"s\"",
            ),
            "mine.toml:9: beta: unit \"s\" is not permitted here",
        ),
        (
            LTE.replace("sure = \"V2\"", "sure = \"yes\""),
            "mine.toml:9: beta: unknown variant `yes`",
        ),
        (
            LTE.replace("kind = \"lte\"", "kind = \"6g\""),
            "mine.toml:2: kind \"6g\" is not known",
        ),
        (
            LTE.replace("value = 1.28, unit", "value = 0.0, unit"),
            "mine.toml:21: paging_cycle: 0 s is outside",
        ),
        (
            WIFI.replace("[-80.0, 1113.0, 633.0]", "[-80.0, 1113.0]"),
            "row 2 needs 3 numbers",
        ),
        (
            WIFI.replace("[-80.0, 1113.0", "[-50.0, 1113.0"),
            "rows must be in ascending order of dBm",
        ),
        (CPU.replace("voltage", "# voltage"), "mA needs a voltage"),
        (
            CPU.replace("voltage", "# voltage")
                .replace("\"MHz\", \"mA\"", "\"MHz\", \"mW\""),
            "awake: mA needs a voltage",
        ),
        (
            CPU.replace("voltage", "# voltage")
                .replace("awake", "# awake")
                .replace("\"MHz\", \"mA\"", "\"MHz\", \"mW\""),
            "clusters 1: mA needs a voltage",
        ),
        (
            PHONE.replace("value = 614.0", "value = 10.0"),
            "the power must lie between low and high",
        ),
        ("kind = ".to_owned(), "mine.toml:1: "),
    ] {
        let got = error(&text);
        assert!(got.contains(expect), "got: {got}\nexpected: {expect}");
    }
}

#[test]
fn an_own_profile_replaces_a_shipped_one() {
    let mut all = Profiles::shipped().unwrap();
    all.load("mine.toml", &LTE.replace("value = 1288.04", "value = 1.0"))
        .unwrap();
    match &all.radio("lte-2012").unwrap().radio {
        Radios::Lte(p) => assert_eq!(p.beta.get(), 1.0),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_not_there_is_named() {
    let all = Profiles::shipped().unwrap();
    let line = all.radio("lte").unwrap_err().to_string();
    assert!(
        line.starts_with("no radio profile is called \"lte\"; known ones are 5g-lb-2020,"),
        "{line}"
    );
    let watch = all.device("lg-urbane").unwrap().access_point();
    assert!(matches!(watch, Err(ProfileError::Missing { .. })));
    assert!(all.device("pixel-2").unwrap().access_point().is_ok());
}
