//! What the doctor says of a helper whose budget is spent, at the helper and at the primary.

use std::process::Command;

use crate::daemons::{Bond, Ways, download, origin, text, until};

fn doctor(bond: &Bond, role: &str) -> String {
    let file = bond.file(&format!("{role}.toml"));
    let done = Command::new(env!("CARGO_BIN_EXE_mpbond"))
        .args(["doctor", role, "--config", text(&file)])
        .output();
    String::from_utf8(done.unwrap().stdout).unwrap()
}

#[test]
fn the_doctor_says_on_both_devices_that_a_budget_is_spent() {
    let bond = Bond::new(Ways::Helper, "", "");
    let file = bond.file("helper.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("max_bytes_per_month = \"1 MB\"\n{config}")).unwrap();
    let _daemons = ["proxy", "helper", "primary"].map(|role| bond.start(role));
    bond.joined(1);
    for role in ["helper", "primary"] {
        let said = doctor(&bond, role);
        assert!(!said.contains("the budget of"), "{said}");
    }
    // It may end early, when the helper closes the relay.
    let _ = download(&bond, origin(), 3_000_000).end();
    until("the helper has spent it", || {
        let budget = bond.status("helper").unwrap().budget.unwrap();
        budget.max_bytes.is_some_and(|max| budget.used_bytes >= max)
    });
    let said = doctor(&bond, "helper");
    assert!(said.contains("is used up: no relay is opened"), "{said}");
    let said = doctor(&bond, "primary");
    assert!(
        said.contains("FAIL  helper helper  the helper opens no relay: "),
        "{said}"
    );
    let advice = "wait for the next month, or raise `max_bytes_per_month` there";
    assert!(said.contains(advice), "{said}");
}
