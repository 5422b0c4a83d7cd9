//! Several users: dual mode, and users of one cell.

use super::{NO_MORE, experiment, figure, links, mpbond, of, run, virtual_only, workload};
use crate::experiment::{Experiment, Scope};
use crate::figures::quantity::Quantity;
use crate::record::Transfer;

fn chunks(gap: &str) -> String {
    let size = "bytes = \"500 kB\", count = 6";
    format!("chunks = {{ {size}, least_gap = \"0s\", most_gap = \"{gap}\" }}")
}

fn dual() -> Vec<Transfer> {
    let alone = "[[scheme]]\nname = \"alone\"\nscheme = \"single\"\ndual = true\n";
    let text = links([5, 5, 50], NO_MORE)
        + alone
        + &mpbond("dual", "dual = true")
        + &workload("at once", "down", &chunks("0s"))
        + &workload("seldom", "down", &chunks("8s"));
    assert_eq!(Scope::of(experiment(&text)), Scope::All);
    // Three seeds at a time.
    let runs = (0..12)
        .step_by(3)
        .map(|first| run(&experiment(&text), first, 2));
    runs.flatten().collect()
}

#[test]
fn users_that_lend_to_each_other_gain_when_they_do_not_fetch_at_once() {
    let all = dual();
    for quantity in [Quantity::ChunkS, Quantity::SecondChunkS] {
        let ratio = |workload| {
            figure(&all, "dual", workload, quantity) / figure(&all, "alone", workload, quantity)
        };
        // At once, both links are busy nearly all the time.
        let (at_once, seldom) = (ratio("at once"), ratio("seldom"));
        assert!((0.8..1.1).contains(&at_once), "{quantity:?}: {at_once}");
        assert!((0.5..0.7).contains(&seldom), "{quantity:?}: {seldom}");
    }
    for d in of(&all, "dual", "at once") {
        // Both users' bytes, each once and with headers, over both links to the proxy.
        let over = |link: &str| d.links.iter().find(|l| l.link == link).unwrap();
        let bytes = |link| over(link).points.last().unwrap().1 as f64;
        let sum = bytes("ps") + bytes("hs");
        assert!((6.0e6..6.9e6).contains(&sum), "{sum}");
        let phone = d.energy[0]
            .devices
            .iter()
            .find(|device| device.host == "phone");
        assert!(phone.is_some_and(|phone| phone.wwan_joules > 1.0), "{d:?}");
    }
    let text = |all: &[Transfer]| serde_json::to_string(all).unwrap();
    assert_eq!(text(&all), text(&dual()), "seeds replay");
}

#[test]
fn with_a_ledger_users_that_lend_to_each_other_send_in_turn() {
    let text = links([5, 5, 50], NO_MORE)
        + &mpbond("at once", "dual = true")
        + &mpbond("in turn", "dual = true\nledger = true")
        + &workload("chunks", "down", &chunks("2s"));
    let all = run(&virtual_only(&text).unwrap(), 0, 2);
    let mean = |scheme| {
        let figure = |quantity| figure(&all, scheme, "chunks", quantity);
        figure(Quantity::ChunkS) + figure(Quantity::SecondChunkS)
    };
    let (at_once, in_turn) = (mean("at once"), mean("in turn"));
    assert!(in_turn < 0.99 * at_once, "{in_turn} {at_once}");
}

fn cell(medium: &str, users: usize) -> Vec<Transfer> {
    let air = "[[medium]]\nname = \"cell\"\nrate = \"8 Mbit/s\"\nduplex = \"full\"\n";
    let one = mpbond("one", &format!("users = {users}")).replace("devices = 2", "devices = 1");
    let text = links([8, 8, 50], [medium, medium, ""])
        + air
        + &one
        + &mpbond("two", &format!("users = {users}"))
        + &workload("chunks", "down", &chunks("0s"));
    run(&virtual_only(&text).unwrap(), 0, 2)
}

#[test]
fn users_share_a_cell_and_nothing_else() {
    const CELL: &str = "medium = \"cell\"";
    let one = figure(&cell(CELL, 1), "one", "chunks", Quantity::ChunkS);
    let four = cell(CELL, 4);
    let chunk = figure(&four, "one", "chunks", Quantity::ChunkS);
    assert!((3.2..4.4).contains(&(chunk / one)), "{one} {chunk}");
    let fairness = figure(&four, "one", "chunks", Quantity::Fairness);
    assert!((0.98..=1.0).contains(&fairness), "{fairness}");
    // A second device of each brings no more of a full cell.
    let two = figure(&four, "two", "chunks", Quantity::ChunkS);
    assert!((0.9..1.2).contains(&(two / chunk)), "{chunk} {two}");
    let apart = figure(&cell("", 4), "one", "chunks", Quantity::ChunkS);
    assert!((0.97..1.03).contains(&(apart / one)), "{one} {apart}");
    let bytes = of(&four, "one", "chunks").iter().map(|d| d.bytes).max();
    assert_eq!(bytes, Some(6 * 500_000), "of the first user");
}

#[test]
fn users_are_refused_where_they_cannot_be() {
    let links = links([8, 8, 50], NO_MORE);
    let file = workload("file", "down", "bytes = 1000");
    let chunks = workload("chunks", "down", &chunks("0s"));
    let error = |text: &str| virtual_only(text).map(|_| ()).unwrap_err().to_string();
    let with = |more: &str, workload: &str| links.clone() + &mpbond("m", more) + workload;
    for (text, why) in [
        (
            with("users = 0", &chunks),
            "scheme \"m\": users: from 1 to 16",
        ),
        (
            with("users = 17", &chunks),
            "scheme \"m\": users: from 1 to 16",
        ),
        (with("users = 2", &file), "only for `chunks` without dual"),
        (with("ledger = true", &chunks), "ledger is only for `dual`"),
        (
            with("users = 2\ndual = true", &chunks),
            "only for `chunks` without dual",
        ),
    ] {
        let error = error(&text);
        assert!(
            error.starts_with("tiny.toml:") && error.contains(why),
            "{error}"
        );
    }
    let in_real_time = Experiment::parse(
        "t.toml",
        &format!("{}{}", super::HEAD, with("users = 2", &chunks)),
    );
    let error = in_real_time.unwrap_err().to_string();
    assert!(
        error.contains("in a file with `simulated = true`"),
        "{error}"
    );
}
