//! Devices and pairing over the API, at a primary that runs and is confined.

use std::process::{Child, Command, Stdio};

use mpbond::config::{TrustFile, TrustedDevice};
use mpbond_net::DeviceId;
use mpbond_testing::Outcome;
use serde_json::Value;

use crate::api::{Listener, ask, got};
use crate::daemons::{Bond, Ways, origin, until};

const BEGIN: &str = "{\"listen\": \"127.0.0.1:0\", \"name\": \"my laptop\"}";

/// A proxy, a helper that does not trust the primary yet, and the primary, with a path of its own.
fn unpaired() -> Bond {
    let bond = Bond::new(Ways::Own, "", "");
    trusted(&bond).remove(&bond.id("primary")).unwrap();
    bond
}

/// The devices that the helper trusts.
fn trusted(bond: &Bond) -> TrustFile {
    TrustFile::beside(&bond.file("helper.pem"))
}

/// Has the helper's owner enter the code that the primary shows.
fn call(bond: &Bond, offer: &Value) -> Child {
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    Command::new(env!("CARGO_BIN_EXE_mpbond"))
        .args(["pair", "--yes", "--json", "--role", "helper"])
        .args([word(&offer["addresses"][0]), word(&offer["code"])])
        .arg("--config")
        .arg(bond.file("helper.toml"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn ended(caller: Child) -> Outcome {
    Outcome::from(caller.wait_with_output().unwrap())
}

/// Waits until the device with the code has called, and returns it.
fn asked(bond: &Bond) -> Value {
    until("the device with the code has called", || {
        got(bond, "GET /v1/pairing", "")["state"] == "asking"
    });
    got(bond, "GET /v1/pairing", "")["device"].clone()
}

/// Ids of the devices that are no proxy.
fn helpers(bond: &Bond) -> Vec<String> {
    let devices = got(bond, "GET /v1/devices", "");
    let devices = devices["devices"].as_array().unwrap().iter();
    let helpers = devices.filter(|device| device["role"] == "helper");
    helpers
        .map(|device| device["id"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_helper_is_paired_used_and_unpaired_without_a_restart() {
    let origin = origin();
    let bond = unpaired();
    let _daemons = ["proxy", "helper", "primary"].map(|role| bond.start(role));
    bond.joined(1);
    let before = got(&bond, "GET /v1/devices", "");
    assert_eq!(before["devices"][0]["role"], "proxy");
    assert_eq!(before["devices"][0]["id"], bond.id("proxy").to_string());
    assert_eq!(helpers(&bond), [""; 0]);
    assert_eq!(got(&bond, "GET /v1/pairing", "")["state"], "none");

    let offer = got(&bond, "POST /v1/pairing", BEGIN);
    assert_eq!(offer["state"], "waiting");
    let expires = offer["expires_in_s"].as_u64().unwrap();
    assert!((100..=120).contains(&expires), "{offer}");
    assert_eq!(ask(&bond, "POST /v1/pairing", BEGIN).code, 409, "one runs");
    let mut events = Listener::new(&bond, "/v1/events");
    let caller = call(&bond, &offer);
    let device = asked(&bond);
    let event = events.next();
    assert_eq!(event["type"], "pairing.request");
    assert_eq!(event["reason"], "helper");
    let id = bond.id("helper").to_string();
    assert_eq!(
        (&device["id"], &device["name"]),
        (&id.as_str().into(), &"helper".into())
    );
    assert_eq!(helpers(&bond), [""; 0], "nobody has agreed");
    let answer = |id: &str| format!("{{\"device\": \"{id}\", \"trust\": true}}");
    let other = answer(&bond.id("proxy").to_string());
    assert_eq!(ask(&bond, "PATCH /v1/pairing", &other).code, 409);
    got(&bond, "PATCH /v1/pairing", &answer(&id));
    let caller = ended(caller);
    assert_eq!(caller.code, 0, "{caller:?}");
    assert!(caller.stdout.contains("my laptop"), "{caller:?}");

    until("it is paired", || {
        got(&bond, "GET /v1/pairing", "")["state"] == "paired"
    });
    assert_eq!(helpers(&bond), [id.as_str()]);
    let trusts = trusted(&bond).devices().unwrap();
    assert_eq!(
        trusts.iter().map(|d| d.id).collect::<Vec<_>>(),
        [bond.id("primary")]
    );
    bond.joined(2);
    assert!(bond.works(origin));

    // The client writes the file, and the daemon reads it: nothing changes by that.
    let section = got(&bond, "GET /v1/pairing", "")["section"].clone();
    let file = bond.file("primary.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{text}\n{}", section.as_str().unwrap())).unwrap();
    let reload = Command::new(env!("CARGO_BIN_EXE_mpbond"))
        .args(["reload", "primary", "--config"])
        .arg(&file)
        .output()
        .unwrap();
    let reload = Outcome::from(reload);
    // What was in force is what is written; the earlier file is what it is compared with.
    assert!(reload.stdout.contains("no change"), "{reload:?}");
    assert_eq!(helpers(&bond), [id.as_str()]);

    assert_eq!(ask(&bond, "DELETE /v1/pairing", "").json()["state"], "none");
    got(&bond, &format!("DELETE /v1/devices/{id}"), "");
    assert_eq!(helpers(&bond), [""; 0]);
    bond.joined(1);
    assert!(bond.works(origin));
    let again = ask(&bond, &format!("DELETE /v1/devices/{id}"), "");
    assert_eq!(again.code, 404);
    let proxy = ask(
        &bond,
        &format!("DELETE /v1/devices/{}", bond.id("proxy")),
        "",
    );
    assert_eq!(proxy.code, 409, "{proxy:?}");
}

#[test]
fn without_consent_or_when_it_is_cancelled_nothing_changes() {
    let bond = unpaired();
    let primary = bond.start("primary");
    for refusal in ["PATCH /v1/pairing", "DELETE /v1/pairing"] {
        let offer = got(&bond, "POST /v1/pairing", BEGIN);
        let caller = call(&bond, &offer);
        let id = asked(&bond)["id"].clone();
        let no = format!("{{\"device\": {id}, \"trust\": false}}");
        got(&bond, refusal, &no);
        let caller = ended(caller);
        assert_eq!(caller.code, 1, "{caller:?}");
        assert_eq!(helpers(&bond), [""; 0]);
        assert_eq!(
            trusted(&bond).devices().unwrap(),
            Vec::<TrustedDevice>::new()
        );
        until("the pairing is over", || {
            let state = got(&bond, "GET /v1/pairing", "")["state"].clone();
            state == "failed" || state == "none"
        });
    }
    // Nobody listens any more.
    let offer = got(&bond, "POST /v1/pairing", BEGIN);
    got(&bond, "DELETE /v1/pairing", "");
    until("the port is closed", || {
        std::net::TcpStream::connect(offer["addresses"][0].as_str().unwrap()).is_err()
    });
    for (body, code) in [
        ("", 422),
        ("{\"wait_s\": 0}", 422),
        ("{\"wait_s\": 601}", 422),
        ("{\"name\": \" \"}", 422),
        ("{\"listen\": \"nowhere\"}", 422),
        ("{\"code\": \"1234-5678\"}", 422),
        ("{\"listen\": \"203.0.113.7:1\"}", 409),
    ] {
        let answer = ask(&bond, "POST /v1/pairing", body);
        assert_eq!(answer.code, code, "{body}: {answer:?}");
    }
    let nobody = "{\"device\": \"x\", \"trust\": true}";
    assert_eq!(ask(&bond, "PATCH /v1/pairing", nobody).code, 409);
    for id in ["x", &DeviceId::from_bytes([7; 32]).to_string()] {
        assert_eq!(
            ask(&bond, &format!("DELETE /v1/devices/{id}"), "").code,
            404
        );
    }
    drop(primary);
}

/// The only link is not removed by this way either, nor one that the policy names.
#[test]
fn a_device_that_is_needed_is_not_unpaired() {
    let bond = Bond::new(Ways::Both, "", "");
    let _daemons = ["proxy", "helper", "primary"].map(|role| bond.start(role));
    bond.joined(2);
    let line = format!("DELETE /v1/devices/{}", bond.id("helper"));
    let policy = "[[rule]]\nname = \"x\"\nport = 25\nset = { paths = [\"helper\"] }\n";
    let put = |text| crate::api::ask_with(&bond, "PUT /v1/policy", "If-Match: *\r\n", text).code;
    assert_eq!(put(policy), 200);
    let refused = ask(&bond, &line, "");
    assert_eq!(refused.code, 409);
    assert!(refused.body.contains("policy"), "{refused:?}");
    assert_eq!(put(""), 200);
    got(&bond, "PATCH /v1/links/own", "{\"mode\": \"off\"}");
    let refused = ask(&bond, &line, "");
    assert_eq!(refused.code, 409);
    assert!(refused.body.contains("no link"), "{refused:?}");
    got(&bond, "PATCH /v1/links/own", "{\"mode\": \"bonded\"}");
    got(&bond, &line, "");
}
