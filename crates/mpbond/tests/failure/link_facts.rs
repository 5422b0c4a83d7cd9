//! What programs tell of links: over the API, and by the script for NetworkManager.

use std::path::Path;
use std::process::Command;

use mpbond_testing::{Need, Outcome, write_script};
use serde_json::{Value, json};

use crate::api::{ask, ask_with, got};
use crate::daemons::{Bond, Ways, origin, until};

fn tell(bond: &Bond, link: &str, facts: &Value) -> Value {
    let answer = ask(bond, &format!("PATCH /v1/links/{link}"), &facts.to_string());
    assert_eq!(answer.code, 200, "{answer:?}");
    answer.json()
}

fn put(bond: &Bond, policy: &str) {
    let answer = ask_with(bond, "PUT /v1/policy", "If-Match: *\r\n", policy);
    assert_eq!(answer.code, 200, "{answer:?}");
}

#[test]
fn rules_on_metered_and_roaming_links_follow_what_programs_tell() {
    let origin = origin();
    let bond = Bond::new(Ways::Own, "", "");
    let _daemons = ["proxy", "primary"].map(|role| bond.start(role));
    bond.joined(1);
    let never = |what: &str| format!("[policy]\ndefault = {{ {what} = \"never\" }}\n");
    for what in ["metered", "roaming"] {
        put(&bond, &never(what));
        // Unknown, known to be, known not to be, and unknown again.
        for (value, is_permitted) in [
            (Value::Null, false),
            (json!(true), false),
            (json!(false), true),
            (Value::Null, false),
        ] {
            let link = tell(&bond, "own", &json!({ what: value }));
            assert_eq!(link.get(what).unwrap_or(&Value::Null), &value);
            assert_eq!(bond.connect(origin).is_ok(), is_permitted, "{what} {value}");
        }
        let rule = format!("[[rule]]\nname = \"it\"\n{what} = true\nset = \"refuse\"\n");
        put(&bond, &rule);
        assert!(bond.works(origin), "it is not known");
        tell(&bond, "own", &json!({ what: true }));
        assert_eq!(bond.connect(origin).err(), Some(2));
        tell(&bond, "own", &json!({ what: Value::Null }));
    }
    // What the user says wins.
    put(
        &bond,
        &(never("metered") + "[[link]]\nname = \"own\"\nmetered = false\n"),
    );
    tell(&bond, "own", &json!({ "metered": true }));
    assert!(bond.works(origin));
}

#[test]
fn a_helper_tells_whether_its_link_is_metered_and_programs_go_before_it() {
    let bond = Bond::new(Ways::Both, "", "");
    let file = bond.file("helper.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("uplink = {{ metered = true }}\n{config}")).unwrap();
    let [_proxy, helper, _primary] = ["proxy", "helper", "primary"].map(|role| bond.start(role));
    bond.joined(2);
    put(&bond, "[policy]\ndefault = { metered = \"never\" }\n");
    let metered = || got(&bond, "GET /v1/links/helper", "")["metered"].clone();
    // By the rules.
    let unusable = || {
        let explained = got(&bond, "POST /v1/explain", "{\"port\": 1}");
        let links = explained["links"].as_array().unwrap();
        let link = links.iter().find(|link| link["name"] == "helper").unwrap();
        link["unusable"].clone()
    };
    until("it is told", || metered() == json!(true));
    assert_eq!(unusable(), "metered");
    tell(&bond, "helper", &json!({ "metered": false }));
    assert_eq!((metered(), unusable()), (json!(false), Value::Null));
    // Guesses do not.
    let guess = json!({ "metered": false, "metered_guessed": true });
    let link = tell(&bond, "helper", &guess);
    assert_eq!(
        [&link["metered"], &link["metered_guessed"]],
        [&json!(true), &Value::Null]
    );
    assert_eq!(unusable(), "metered");
    tell(&bond, "helper", &json!({ "metered": Value::Null }));
    assert_eq!((metered(), unusable()), (json!(true), json!("metered")));
    // One that does not say it, as those of older versions.
    drop(helper);
    std::fs::write(&file, config).unwrap();
    let _helper = bond.start("helper");
    until("it is not known", || {
        metered().is_null() && unusable() == "perhaps-metered"
    });
}

#[test]
fn the_script_for_network_manager_tells_what_that_knows() {
    if Command::new("curl").arg("--version").output().is_err() {
        return Need::Curl.is_missing("curl is not installed");
    }
    let bond = Bond::new(Ways::Both, "", "");
    let config = std::fs::read_to_string(bond.file("primary.toml")).unwrap();
    let renamed = config.replace("name = \"own\"", "name = \"größe 5/6\"");
    std::fs::write(bond.file("primary.toml"), renamed).unwrap();
    let _daemons = ["proxy", "helper", "primary"].map(|role| bond.start(role));
    bond.joined(2);
    let programs = bond.file("programs");
    std::fs::create_dir(&programs).unwrap();
    let program = |name: &str, text: &str| {
        write_script(programs.join(name), &format!("#!/bin/sh\n{text}\n"));
    };
    program(
        "nmcli",
        "case \"$*\" in\n\
         '-g GENERAL.METERED device show wwan0') echo 'yes (guessed)' ;;\n\
         '-g GENERAL.TYPE device show wwan0') echo gsm ;;\n\
         '-g GENERAL.UDI device show wwan0') echo /org/freedesktop/ModemManager1/Modem/1 ;;\n\
         '-g GENERAL.METERED device show eth0') echo 'no (guessed)' ;;\n\
         '-g GENERAL.TYPE device show eth0') echo ethernet ;;\n\
         '-g GENERAL.METERED device show wlan0') echo no ;;\n\
         '-g GENERAL.TYPE device show wlan0') echo wifi ;;\n\
         *) echo \"unexpected: $*\" >&2; exit 1 ;;\nesac",
    );
    program(
        "mmcli",
        "case \"$*\" in\n\
         '-m /org/freedesktop/ModemManager1/Modem/1 --output-keyvalue') state=roaming ;;\n\
         *) state=home ;;\nesac\n\
         echo \"modem.3gpp.registration-state : $state\"",
    );
    let facts = |name: &str| {
        let link = got(&bond, &format!("GET /v1/links/{name}"), "");
        ["metered", "roaming"].map(|fact| link[fact].clone())
    };
    // Of all links together.
    let metered = || {
        let explained = got(&bond, "POST /v1/explain", "{\"port\": 1}");
        let mut facts = explained["facts"].as_array().unwrap().iter();
        let fact = facts.find(|fact| fact["name"] == "metered").unwrap();
        [fact["value"].clone(), fact["certainty"].clone()]
    };
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/NetworkManager/mpbond-link-facts");
    let run = |words: &[&str]| {
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        let done = Command::new(&script)
            .args(words)
            .env("PATH", path)
            .env("MPBOND_API", bond.file("primary.api"))
            .env("MPBOND_LINK_FACTS", bond.file("link-facts"))
            .output();
        Outcome::from(done.unwrap())
    };
    // Without a word on links, as the dispatcher calls it.
    let none = run(&["wwan0", "up"]);
    assert_eq!(none.code, 2, "{none:?}");
    assert_eq!(none.stderr.lines().count(), 1, "{none:?}");
    let own = "gr%C3%B6%C3%9Fe%205%2F6";
    assert_eq!(run(&["größe 5/6=wwan0", "helper=wlan0"]).code, 0);
    assert_eq!(facts(own), [json!(true), json!(true)]);
    assert_eq!(facts("helper"), [json!(false), json!(false)]);
    assert_eq!(metered(), ["false", "known"], "one is not");
    // NetworkManager guesses both.
    assert_eq!(run(&["helper=eth0"]).code, 0);
    assert_eq!(facts("helper"), [json!(false), json!(false)]);
    assert_eq!(metered(), ["false", "guessed"]);
    let guessed =
        |name: &str| got(&bond, &format!("GET /v1/links/{name}"), "")["metered_guessed"].clone();
    assert_eq!([own, "helper"].map(guessed), [json!(true), json!(true)]);
    assert_eq!(run(&["helper=wlan0"]).code, 0);
    assert_eq!(guessed("helper"), Value::Null, "it is known again");
    // One that NetworkManager does not know, from the file.
    std::fs::write(bond.file("link-facts"), "# links\nhelper=usb0\n").unwrap();
    let from_file = run(&["usb0", "down"]);
    assert_eq!(from_file.code, 0, "{from_file:?}");
    until("it is not known", || {
        facts("helper") == [Value::Null, Value::Null]
    });
    // One that the primary does not have keeps it from nothing.
    let unknown = run(&["another=wlan0", "helper=wlan0"]);
    assert_eq!(unknown.code, 1, "{unknown:?}");
    assert!(
        unknown.stderr.contains("of the link another"),
        "{unknown:?}"
    );
    assert_eq!(facts("helper"), [json!(false), json!(false)]);
}

#[test]
fn a_dry_run_lists_the_connections_that_a_policy_would_treat_otherwise() {
    let (first, second) = (origin(), origin());
    let bond = Bond::new(Ways::Both, "", "");
    let policy = bond.file("new.toml");
    let rule = |port: u16, set: &str| {
        let text = format!("[[rule]]\nname = \"it\"\nport = {port}\nset = {set}\n");
        std::fs::write(&policy, text).unwrap();
    };
    let dry_run = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mpbond"));
        command
            .args(["policy", "check"])
            .arg(&policy)
            .arg("--config");
        let done = command
            .arg(bond.file("primary.toml"))
            .arg("--dry-run")
            .output();
        Outcome::from(done.unwrap())
    };
    rule(first.port(), "\"refuse\"");
    let none = dry_run();
    assert_eq!(none.code, 1, "{none:?}");
    assert!(
        none.stderr.contains("is `mpbond primary` running?"),
        "{none:?}"
    );
    let _daemons = ["proxy", "helper", "primary"].map(|role| bond.start(role));
    bond.joined(2);
    let open = [first, second].map(|to| bond.connect(to).unwrap());
    let client = open[0].local_addr().unwrap();
    let text = dry_run();
    let both = "bulk over own, helper (default)";
    let expected = format!(
        "{first} from {client}\n  now:  {both}\n  then: refused (rule \"it\")\n\
         1 of 2 open connections would be treated otherwise\n"
    );
    assert!(text.stdout.ends_with(&expected), "{text:?}");
    rule(
        first.port(),
        "{ class = \"background\", paths = [\"helper\"] }",
    );
    let text = dry_run().stdout;
    assert!(
        text.contains("\n  then: background over helper (rule \"it\")\n"),
        "{text}"
    );
    // Without `--config`, the primary alone knows that it has no such link.
    rule(first.port(), "{ paths = [\"none\"] }");
    let mut command = Command::new(env!("CARGO_BIN_EXE_mpbond"));
    command.args(["policy", "check", "--dry-run"]).arg(&policy);
    command.env("CONFIGURATION_DIRECTORY", bond.folder.path());
    let wrong = Outcome::from(command.output().unwrap());
    assert_eq!(wrong.code, 2, "{wrong:?}");
    assert_eq!(wrong.stderr.lines().count(), 1, "{wrong:?}");
    assert!(wrong.stderr.contains("none"), "{wrong:?}");
    rule(first.port(), "{ class = \"bulk\" }");
    let same = "0 of 2 open connections would be treated otherwise\n";
    assert!(dry_run().stdout.ends_with(same));
    assert!(bond.works(first), "nothing has changed");
}
