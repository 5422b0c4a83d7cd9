//! `address = "discover"`: a helper is found by the primary that it trusts, and by no other one,
//! in a namespace without any network but loopback.

use mpbond_net::DeviceId;
use mpbond_testing::namespaces::unshare;
use serde_json::Value;

/// Two visits of the doctor: before and after the helper trusts the primary.
const SCRIPT: &str = r#"
set -e
ip link set lo up
"$MPBOND" --log warn helper --config helper.toml &
helper=$!
trap 'kill $helper; wait' EXIT
for i in $(seq 100); do [ -S helper.sock ] && break; sleep 0.05; done
"$MPBOND" doctor primary --json --config primary.toml > before.json || true
"$MPBOND" trust "$PRIMARY" --identity helper.pem
"$MPBOND" doctor primary --json --config primary.toml > after.json || true
"#;

fn findings(file: &std::path::Path) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(file).unwrap();
    let all: Vec<Value> = serde_json::from_str(&text).unwrap();
    let of_helper = all.iter().filter(|f| f["check"] == "helper watch");
    of_helper
        .map(|f| {
            let text = |key: &str| f[key].as_str().unwrap().to_owned();
            (text("verdict"), text("detail"))
        })
        .collect()
}

#[test]
fn a_helper_is_found_by_those_that_it_trusts() {
    let Some(mut command) = unshare("-rn") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let id = |name: &str| -> DeviceId {
        mpbond_net::Identity::load_or_create(file(name))
            .unwrap()
            .id()
    };
    let (helper, primary) = (id("helper.pem"), id("primary.pem"));
    let config = "identity = \"helper.pem\"\nstatus_socket = \"helper.sock\"\nannounce = true\n\
        proxies = \"203.0.113.1:4433\"\n";
    std::fs::write(file("helper.toml"), config).unwrap();
    let config = format!(
        "identity = \"primary.pem\"\nstatus_socket = \"primary.sock\"\n\
         [proxy]\naddress = \"203.0.113.1:4433\"\nid = \"{helper}\"\n\
         [[helper]]\nname = \"watch\"\naddress = \"discover\"\nid = \"{helper}\"\n"
    );
    std::fs::write(file("primary.toml"), config).unwrap();
    let done = command
        .args(["bash", "-c", SCRIPT])
        .env("MPBOND", env!("CARGO_BIN_EXE_mpbond"))
        .env("PRIMARY", primary.to_string())
        .current_dir(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr);

    let before = findings(&file("before.json"));
    assert_eq!(before.len(), 1, "{before:?} {said}");
    let (verdict, detail) = &before[0];
    assert_eq!(verdict, "fail");
    assert!(
        detail.contains("not found on the local network"),
        "{detail}"
    );

    let after = findings(&file("after.json"));
    let good = |said: &str| after.iter().any(|(v, d)| v == "ok" && d.contains(said));
    assert!(good("found at 127.0.0.1:4434"), "{after:?} {said}");
    assert!(good("trusts this device"), "{after:?}");
}
