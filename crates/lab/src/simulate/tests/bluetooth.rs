//! A pipe over emulated Bluetooth.

use super::{experiment, links, mpbond, of, run, seconds, workload};
use crate::experiment::Scope;

/// A helper behind Bluetooth, and a path of 1 Mbit/s.
fn watch(bluetooth: &str) -> String {
    let lost = "bytes = \"1 MiB\"\n\
        [[workload.change]]\nlink = \"pipe\"\nat = \"2s\"\ncarrier = false\n\
        [[workload.change]]\nlink = \"pipe\"\nat = \"4s\"\ncarrier = true\n";
    let pipe = "delay = \"2ms\"\ndown = 1\nup = 1\n";
    links([1, 10, 1], ["", "", ""]).replace(pipe, bluetooth)
        + &mpbond("alone", "paths = []\nworkloads = [\"plain\"]")
        + &mpbond("both", "workloads = [\"lost\"]")
        + &workload("plain", "down", "bytes = \"512 KiB\"")
        + &workload("lost", "down", lost)
}

#[test]
fn a_pipe_over_bluetooth_is_a_stream_that_is_lost_and_made_again() {
    let text = watch("bluetooth = {}\n");
    assert_eq!(Scope::of(experiment(&text)), Scope::All);
    let all = run(&experiment(&text), 0, 2);
    // 512 KiB at 1.267 Mbit/s are 3.31 s.
    let plain = seconds(&all, "alone", "plain");
    assert!((3.3..5.0).contains(&plain), "{plain}");
    for d in of(&all, "both", "lost") {
        let pipe = d.subflows.iter().find(|s| s.name == "phone").unwrap();
        assert!(pipe.finished_s > Some(4.0), "{:?}", d.subflows);
        let watch = &d.energy[0].devices[0];
        assert!(watch.pipe_joules > 0.0, "{watch:?}");
    }
}

#[test]
fn a_signal_that_fades_makes_it_slower() {
    let near = experiment(&watch("bluetooth = {}\n"));
    let faded = "bluetooth = { signal_dbm = [[\"0s\", -50], [\"1s\", -80]] }\n";
    let far = experiment(&watch(faded));
    let [near, far] = [near, far].map(|e| seconds(&run(&e, 0, 2), "alone", "plain"));
    assert!(far > 1.15 * near, "{near} {far}");
}
