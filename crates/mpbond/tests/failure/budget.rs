//! A helper's monthly budget that is used up while applications transfer.

use crate::daemons::{Bond, Ways, download, origin, until};

const BUDGET_BYTES: u64 = 300_000;

/// Has the helper carry bytes first.
pub fn own_path_is_backup(bond: &Bond) {
    let file = bond.file("primary.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    let backup = config.replace("name = \"own\"", "name = \"own\"\nbackup = true");
    assert_ne!(backup, config);
    std::fs::write(&file, backup).unwrap();
}

#[test]
fn a_primary_is_told_what_its_helper_lends_while_that_becomes_less() {
    const BUDGET: u64 = 1_000_000_000;
    let origin = origin();
    let bond = Bond::new(Ways::Both, "", "");
    let file = bond.file("helper.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    std::fs::write(
        &file,
        "max_bytes_per_month = \"1 GB\"\n".to_owned() + &config,
    )
    .unwrap();
    own_path_is_backup(&bond);
    let _daemons = ["proxy", "helper", "primary"].map(|role| bond.start(role));
    until("both links are up", || {
        let links = bond.status("primary").unwrap().links;
        links.len() == 2 && links.iter().all(|link| link.state == "up")
    });
    let left = || {
        let links = bond.status("primary").unwrap().links;
        let lent = |kind: &str| {
            links
                .iter()
                .find(|l| l.kind == kind)
                .unwrap()
                .lent_bytes_left
        };
        assert_eq!(lent("path"), None);
        lent("helper")
    };
    let used = || bond.status("helper").unwrap().budget.unwrap().used_bytes;
    until("it is told", || left().is_some());
    let running = download(&bond, origin, 4_000_000);
    assert_eq!(running.end().unwrap(), 4_000_000);
    assert!(used() > 100_000);
    // Nothing moves now.
    until("it is told again", || left() == Some(BUDGET - used()));
}

#[test]
fn downloads_go_on_over_other_paths_when_the_budget_of_a_helper_is_used_up() {
    let origin = origin();
    let bond = Bond::new(Ways::Both, "on_proxy_loss = \"fail\"", "");
    let file = bond.file("helper.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    let budget = format!("max_bytes_per_month = \"{BUDGET_BYTES} B\"\n");
    std::fs::write(&file, budget + &config).unwrap();
    own_path_is_backup(&bond);
    let _daemons = ["proxy", "helper", "primary"].map(|role| bond.start(role));
    until("both links are up", || {
        let links = bond.status("primary").unwrap().links;
        links.len() == 2 && links.iter().all(|link| link.state == "up")
    });
    let used = || bond.status("helper").unwrap().budget.unwrap().used_bytes;
    until("it is used up", || {
        let running = download(&bond, origin, 1_000_000);
        assert_eq!(running.end().unwrap(), 1_000_000);
        used() >= BUDGET_BYTES
    });
    assert_eq!(used(), BUDGET_BYTES, "to the byte");
    let notes = bond.status("helper").unwrap().notes;
    assert!(
        notes.iter().any(|n| n == "this month's budget is used up"),
        "{notes:?}"
    );
    until("the primary has been told", || {
        let links = bond.status("primary").unwrap().links;
        let helper = links.iter().find(|link| link.kind == "helper").unwrap();
        let error = helper.error.as_deref().unwrap_or_default();
        helper.state == "waiting" && error.ends_with("this month's budget is used up")
    });
    assert!(bond.works(origin));
}
