//! Policies that are read again while the primary runs, whole or not at all.

use std::fs;
use std::path::Path;

use mpbond::config::ZONES;
use mpbond::reload::Answer;
use mpbond::status_socket;
use mpbond_testing::Need;

use crate::daemons::{Bond, Ways, origin, text};
use crate::log_flood::start;

fn reload(bond: &Bond) -> Answer {
    status_socket::reload(&bond.file("primary.sock")).unwrap()
}

/// Puts another policy in place, as editors do, and has the primary read it.
pub fn put(bond: &Bond, policy: &str) -> Answer {
    let new = bond.file("new-policy.toml");
    fs::write(&new, policy).unwrap();
    fs::rename(new, bond.file("policy.toml")).unwrap();
    reload(bond)
}

/// The same with a policy that is right.
#[track_caller]
pub fn apply(bond: &Bond, policy: &str) {
    match put(bond, policy) {
        Answer::Read { changes, .. } => assert_eq!(changes.applied, ["policy"]),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_wrong_policy_changes_nothing() {
    let origin = origin();
    let bond = Bond::new(Ways::Own, "policy = \"policy.toml\"", "");
    let right = "[policy]\nzone = \"UTC\"\n";
    fs::write(bond.file("policy.toml"), right).unwrap();
    let _daemons = [start(&bond, "proxy"), start(&bond, "primary")];
    bond.joined(1);
    let rule = |lines: &str| format!("[[rule]]\nname = \"x\"\n{lines}\n");
    let port = rule("port = 443\nset = \"refuse\"");
    let wrong = [
        ("[policy]\nzoen = \"UTC\"\n", "2: policy.zoen: unknown key"),
        ("[[rule]\n", "1: "),
        (
            &*rule("set = \"refuse\""),
            "1: rule: a rule without a condition",
        ),
        (
            &*rule("port = []\nset = \"refuse\""),
            "3: rule.port: an empty list",
        ),
        (
            &*rule("port = 0\nset = \"refuse\""),
            "3: rule.port: 0 is not",
        ),
        (&*rule("port = 1\nset = {}"), "4: rule.set: an empty table"),
        (
            &*(port.clone() + &port.replace("\"x\"", "\"y\"")),
            "5: rule: \"y\" never applies",
        ),
        (
            "[[link]]\nname = \"own\"\ncap = { bytes = \"0 B\", zone = \"UTC\" }\n",
            "3: link.cap: a cap of 0",
        ),
        (
            "[[link]]\nname = \"ownn\"\ncost = 1\n",
            "1: link.name: no path or helper",
        ),
        (
            "[policy]\nzone = \"../UTC\"\n",
            "2: policy.zone: \"../UTC\" is not",
        ),
        (
            &*"#".repeat(300_000),
            " the policy cannot be read: longer than 262144 bytes",
        ),
        (
            "[policy]\nmode = \"saver\"\n",
            "2: policy.mode: it has no effect",
        ),
    ];
    let file = bond.file("policy.toml");
    let is_wrong = |answer: Answer, expected: &str| {
        let Answer::Wrong(line) = answer else {
            panic!("{expected}: {answer:?}")
        };
        let expected = format!("{}:{expected}", text(&file));
        assert!(line.starts_with(&expected), "{expected}\n{line}");
        assert_eq!(line.lines().count(), 1, "{line}");
    };
    for (policy, expected) in wrong {
        is_wrong(put(&bond, policy), expected);
    }
    fs::remove_file(&file).unwrap();
    is_wrong(
        reload(&bond),
        " the policy cannot be read: there is no such file",
    );
    let Answer::Read { changes, .. } = put(&bond, right) else {
        panic!("the policy is right")
    };
    assert_eq!(
        changes.applied,
        Vec::<String>::new(),
        "it was in force all the time"
    );
    match Path::new(ZONES).join("Asia/Tokyo").exists() {
        // The file of this zone is read for the first time.
        true => apply(&bond, "[policy]\nzone = \"Asia/Tokyo\"\n"),
        false => Need::Zones.is_missing("no time zones of the system"),
    }
    assert!(bond.works(origin));
}
