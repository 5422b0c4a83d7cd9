//! Helpers with several pipes.

use super::{experiment, links, mpbond, of, run, virtual_only, workload};
use crate::experiment::{Scope, leave_out};
use crate::record::Transfer;

/// A helper behind pipes of 20 Mbit/s and of Bluetooth's rate.
fn two_links() -> String {
    let second = "[[link]]\nname = \"bt\"\nfrom = \"primary\"\nto = \"phone\"\ndown = 1\nup = 1\n\
        radio = \"watch-bt\"\nfar_radio = \"phone-bt\"\n";
    let radios = "radio = \"wifi-s4\"\nfar_radio = \"wifi-s4\"";
    links([1, 40, 20], ["", "", radios]) + second
}

/// Schemes and transfers over them.
fn two_pipes() -> String {
    let loud = "bytes = \"4 MiB\"\n\
        [[workload.change]]\nlink = \"pipe\"\nat = \"500ms\"\ncarrier = false\n\
        [[workload.change]]\nlink = \"pipe\"\nat = \"2s\"\ncarrier = true\n";
    two_links()
        + &mpbond(
            "all",
            "pipes = \"all\"\npaths = []\nworkloads = [\"plain\"]",
        )
        + &mpbond("best", "pipes = \"best\"\npaths = []")
        + &workload("plain", "down", "bytes = \"4 MiB\"")
        + &workload("loud", "down", loud)
}

/// Bytes over a pipe, all repetitions.
fn over(all: &[&Transfer], pipe: &str) -> u64 {
    let shares = all.iter().flat_map(|d| &d.subflows);
    shares.filter(|s| s.name == pipe).map(|s| s.bytes).sum()
}

#[test]
fn of_several_pipes_all_are_used_or_the_best_one() {
    let e = experiment(&two_pipes());
    let all = run(&e, 0, 2);
    let plain = |scheme| of(&all, scheme, "plain");
    assert!(over(&plain("all"), "bt") > 0 && over(&plain("all"), "pipe") > 0);
    // It stands by, but for a trial: a second at 1 Mbit/s in each of two repetitions.
    let over_bt = over(&plain("best"), "bt");
    assert!(over_bt <= 2 * 125_000, "{over_bt} bytes");
    // 4 MiB take 1.7 s at 20 Mbit/s: the helper's own link is one, and fast enough.
    let longest = plain("best").iter().map(|d| d.seconds).fold(0.0, f64::max);
    assert!(longest < 2.5, "{longest}");
    for d in of(&all, "best", "loud") {
        assert!(over(&[d], "bt") > 0, "{:?}", d.subflows);
        assert!(d.longest_stall_s < 1.5, "{}", d.longest_stall_s);
        let watch = &d.energy[0].devices[0];
        let plain = of(&all, "best", "plain")[0].energy[0].devices[0].pipe_joules;
        assert!(watch.pipe_joules > plain, "two radios: {watch:?}");
    }
}

#[test]
fn a_carrier_is_lost_only_where_the_path_manager_is_shown_it() {
    let text = two_pipes();
    assert_eq!(Scope::of(experiment(&text)), Scope::All);
    let mut e = experiment(&text.replace("workloads = [\"plain\"]", ""));
    let said = leave_out(&mut e).join("\n");
    assert!(
        said.contains("workload \"loud\": the loss of a carrier"),
        "{said}"
    );
}

#[test]
fn a_helper_that_dies_is_gone_on_all_its_pipes() {
    let kill = "bytes = \"4 MiB\"\n[[workload.fault]]\nat = \"500ms\"\nkill = \"phone\"\n";
    let text =
        two_pipes().replace("paths = []", "paths = [\"ps\"]") + &workload("killed", "down", kill);
    let all = run(&experiment(&text), 0, 2);
    for d in of(&all, "best", "killed") {
        // What is left comes over the direct path of 1 Mbit/s.
        assert!(d.seconds > 8.0, "{}", d.seconds);
        assert!(over(&[d], "ps") > 1 << 20, "{:?}", d.subflows);
    }
}

/// WiFi comes first in the file.
#[test]
fn where_the_radios_are_known_bluetooth_carries_150_kbit_per_s_for_half_the_joules() {
    let stream = "stream = { rate = \"150 kbit/s\", length = \"10s\", message = \"3 kB\" }";
    let text = two_links()
        + &mpbond("file", "pipes = \"best\"\npaths = []")
        + &mpbond("energy", "pipes = \"best\"\npaths = []\npipe_radios = true")
        + &workload("stream", "down", stream);
    let all = run(&virtual_only(&text).unwrap(), 0, 2);
    let [file, energy] = ["file", "energy"].map(|scheme| of(&all, scheme, "stream"));
    assert!(over(&file, "pipe") > 0 && over(&file, "bt") == 0);
    assert!(over(&energy, "bt") > 0 && over(&energy, "pipe") == 0);
    let joules = |all: &[&Transfer]| -> f64 {
        let devices = all.iter().flat_map(|d| &d.energy[0].devices);
        devices.map(|device| device.pipe_joules).sum()
    };
    let (file, energy) = (joules(&file), joules(&energy));
    assert!(energy < file / 2.0, "{energy} {file}");
    let error = |text: &str| virtual_only(text).unwrap_err().to_string();
    let all = text.replace("pipes = \"best\"", "pipes = \"all\"");
    assert!(error(&all).contains("pipe_radios is only for"));
    let unnamed = text.replace("radio = \"watch-bt\"\nfar_radio = \"phone-bt\"\n", "");
    assert!(error(&unnamed).contains("pipe_radios: each link from the primary"));
}
