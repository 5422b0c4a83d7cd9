//! docs/api.md, docs/openapi.json and the client for Python agree with a primary that runs.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use mpbond_testing::{Need, Outcome};
use serde_json::{Value, json};

use crate::api::{Listener, ask, ask_with, connect, got};
use crate::daemons::{Bond, Ways, origin, until};

fn document(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(document(name)).unwrap()
}

/// Whether curl ended a request that has no end.
const TIMED_OUT: i32 = 28;

#[test]
fn the_examples_of_the_document_work() {
    if Command::new("curl").arg("--version").output().is_err() {
        return Need::Curl.is_missing("curl is not installed");
    }
    let bond = Bond::new(Ways::Both, "", "");
    let _daemons = ["proxy", "helper", "primary"].map(|role| bond.start(role));
    bond.joined(2);
    let text = read("docs/api.md");
    let blocks: Vec<_> = text.split("\n```sh\n").skip(1).collect();
    assert!(blocks.len() >= 9, "{}", blocks.len());
    let socket = bond.file("primary.api");
    for block in blocks {
        let (commands, _) = block.split_once("\n```").unwrap();
        let line = commands.replace("/run/mpbond/primary.api", socket.to_str().unwrap());
        let done = Command::new("sh")
            .args(["-e", "-c", &line])
            .output()
            .unwrap();
        let done = Outcome::from(done);
        let endless = line.contains("--max-time") && done.code == TIMED_OUT;
        assert!(done.code == 0 || endless, "{commands}\n{done:?}");
        assert!(!line.contains("events") || done.stdout.contains("link.up"));
        assert!(!line.contains("samples") || done.stdout.contains("\"waiting_bytes\":0"));
    }
    let policy = ask(&bond, "GET /v1/policy", "").body;
    assert!(
        policy.contains("name = \"mail\""),
        "the example has changed it"
    );
}

/// What is wrong with a value by a schema of the document (of JSON Schema, what it uses). Fields
/// that a schema does not name are wrong.
fn mismatch(schema: &Value, all: &Value, value: &Value) -> Option<String> {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.strip_prefix("#/components/schemas/").unwrap();
        assert!(all[name].is_object(), "no schema {name}");
        return mismatch(&all[name], all, value);
    }
    let kinds = schema["oneOf"].as_array().or(schema["anyOf"].as_array());
    if let Some(kinds) = kinds {
        let wrong: Option<Vec<_>> = kinds.iter().map(|k| mismatch(k, all, value)).collect();
        return wrong.map(|wrong| wrong.join("; or "));
    }
    if let Some(values) = schema["enum"].as_array()
        && !values.contains(value)
    {
        return Some(format!("{value} is none of {values:?}"));
    }
    if schema["const"].is_string() && schema["const"] != *value {
        return Some(format!("{value} is not {}", schema["const"]));
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_u64() || n.is_i64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let is = |wanted: &Value| wanted == kind || (wanted == "number" && kind == "integer");
    let allowed = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().any(is),
        one => is(one),
    };
    if !allowed {
        return Some(format!("{value} is no {}", schema["type"]));
    }
    if let Some(values) = value.as_array() {
        return values
            .iter()
            .find_map(|v| mismatch(&schema["items"], all, v));
    }
    let fields = value.as_object()?;
    let mut required = schema["required"].as_array().into_iter().flatten();
    let missing = required.find(|name| !fields.contains_key(name.as_str().unwrap()));
    if let Some(missing) = missing {
        return Some(format!("{missing} is missing in {value}"));
    }
    fields.iter().find_map(|(name, field)| {
        match (&schema["properties"][name], &schema["additionalProperties"]) {
            (Value::Null, others @ Value::Object(_)) => mismatch(others, all, field),
            (Value::Null, _) => Some(format!("unknown field {name}")),
            (known, _) => mismatch(known, all, field),
        }
    })
}

#[test]
fn answers_have_the_fields_of_the_schema_and_resources_its_methods() {
    let document: Value = serde_json::from_str(&read("docs/openapi.json")).unwrap();
    let all = &document["components"]["schemas"];
    let origin = origin();
    let bond = Bond::new(Ways::Both, "", "");
    let _daemons = ["proxy", "helper", "primary"].map(|role| bond.start(role));
    bond.joined(2);
    let _open = [bond.connect(origin).unwrap(), bond.connect(origin).unwrap()];
    // Nothing tells that a link is not metered.
    let rule = "[[rule]]\nname = \"x\"\nport = 25\nset = \"refuse\"\n\
         [[rule]]\nname = \"late\"\nport = 26\nset = { metered = \"never\", delay = \"1h\" }\n";
    assert_eq!(
        ask_with(&bond, "PUT /v1/policy", "If-Match: *\r\n", rule).code,
        200
    );

    #[track_caller]
    fn check(all: &Value, schema: &str, value: &Value) {
        assert_eq!(mismatch(&all[schema], all, value), None, "{schema}");
    }
    let mut late = std::net::TcpStream::connect(bond.socks5).unwrap();
    late.write_all(&[5, 1, 0, 5, 1, 0, 1, 192, 0, 2, 1, 0, 26])
        .unwrap();
    until("a connection waits", || {
        got(&bond, "GET /v1/status", "")["waiting"].is_array()
    });
    let status = got(&bond, "GET /v1/status", "");
    check(all, "Status", &status);
    assert_eq!(status["waiting"][0]["rule"], "late");
    let page = got(&bond, "GET /v1/streams?limit=1", "");
    assert!(page["next"].is_u64());
    check(all, "Streams", &page);
    let id = &page["streams"][0]["id"];
    check(
        all,
        "Stream",
        &got(&bond, &format!("GET /v1/streams/{id}"), ""),
    );
    let why = got(&bond, &format!("GET /v1/streams/{id}/explain"), "");
    check(all, "StreamExplanation", &why);
    check(all, "Links", &got(&bond, "GET /v1/links", ""));
    check(
        all,
        "Link",
        &got(&bond, "PATCH /v1/links/own", "{\"mode\": \"off\"}"),
    );
    check(all, "Devices", &got(&bond, "GET /v1/devices", ""));
    let begin = "{\"listen\": \"127.0.0.1:0\"}";
    check(all, "PairingBegin", &serde_json::from_str(begin).unwrap());
    check(all, "Pairing", &got(&bond, "POST /v1/pairing", begin));
    check(all, "Pairing", &got(&bond, "DELETE /v1/pairing", ""));
    check(all, "Checked", &got(&bond, "POST /v1/policy:check", "x"));
    let everything = "[policy]\ndefault = { paths = [\"helper\"] }\n";
    let compared = got(&bond, "POST /v1/policy:compare", everything);
    assert_eq!(compared["streams"].as_array().unwrap().len(), 2);
    check(all, "Compared", &compared);
    check(all, "PolicyMode", &got(&bond, "GET /v1/mode", ""));
    check(all, "PolicyModeChange", &json!({"mode": "saver"}));
    let explained = got(&bond, "POST /v1/explain", "{\"port\": 25}");
    check(all, "Explanation", &explained);
    let explained = got(&bond, "POST /v1/explain", "{\"port\": 26}");
    check(all, "Explanation", &explained);
    let measured = &explained["links"][0]["measured"];
    assert!(measured["rtt_ms"].is_f64(), "{explained}");
    check(
        all,
        "Error",
        &ask(&bond, "POST /v1/explain", "{\"port\": 1").json(),
    );
    let question = json!({"port": 1, "domain": "a", "ip": "::1", "app": "a", "uid": 1,
        "cgroup": "/", "dscp": 1, "source": "::1"});
    check(all, "Question", &question);
    let asked = question
        .as_object()
        .unwrap()
        .keys()
        .collect::<BTreeSet<_>>();
    let known = all["Question"]["properties"].as_object().unwrap();
    assert_eq!(asked, known.keys().collect());
    got(&bond, "POST /v1/explain", &question.to_string());
    let mut events = connect(&bond);
    events
        .write_all(b"GET /v1/events?since=0 HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    let mut text = String::new();
    // A part may end within a line.
    while !(text.contains("policy.changed") && text.ends_with('\n')) {
        let mut octets = [0; 4096];
        let count = std::io::Read::read(&mut events, &mut octets).unwrap();
        text.push_str(std::str::from_utf8(&octets[..count]).unwrap());
    }
    for line in text.lines().filter(|line| line.starts_with('{')) {
        check(all, "Event", &serde_json::from_str(line).unwrap());
    }

    let mut samples = Listener::new(&bond, "/v1/samples?every_ms=100");
    for _ in 0..2 {
        check(all, "Sample", &samples.next());
    }

    for (path, methods) in document["paths"].as_object().unwrap() {
        let path = path
            .replace("{name}", "own")
            .replace("{device}", &bond.id("proxy").to_string())
            .replace("{id}", &id.to_string());
        for method in ["GET", "PUT", "POST", "PATCH", "DELETE"] {
            let is_there = methods[method.to_lowercase()].is_object();
            // These have no end.
            if is_there && ["/v1/events", "/v1/samples"].contains(&path.as_str()) {
                continue;
            }
            let code = ask(&bond, &format!("{method} {path}"), "").code;
            assert_eq!(is_there, code != 405, "{method} {path}: {code}");
            assert_ne!(code, 404, "{method} {path}");
        }
    }
}

/// Runs a program that uses a client, with the API's socket and the destination of two connections,
/// beside a bond of an own path and a helper.
fn run_client(program: &mut Command) {
    let origin = origin();
    let bond = Bond::new(Ways::Both, "", "");
    let _daemons = ["proxy", "helper", "primary"].map(|role| bond.start(role));
    bond.joined(2);
    let _open = [bond.connect(origin).unwrap(), bond.connect(origin).unwrap()];
    program
        .arg(bond.file("primary.api"))
        .arg(origin.to_string());
    let done = Outcome::from(program.output().unwrap());
    assert_eq!(done.code, 0, "{}", done.stderr);
}

#[test]
fn the_client_for_python_works() {
    if Command::new("python3").arg("--version").output().is_err() {
        return Need::Python.is_missing("python3 is not installed");
    }
    let script = r#"
import sys
import mpbond

client = mpbond.Client(sys.argv[1])
assert client.status()["role"] == "primary"
assert [s["destination"] for s in client.streams(page=1)] == 2 * [sys.argv[2]]
assert len(list(client.streams(destination=sys.argv[2]))) == 2
assert len(list(client.streams(app=None, destination=None))) == 2
assert not list(client.streams(app="none such & more"))
assert {link["name"] for link in client.links()} == {"own", "helper"}
text, tag = client.policy()
assert text == ""
wrong = '[[rule]]\nname = "x"\nport = 0\nset = "refuse"\n'
assert client.check_policy(wrong)[0]["line"] == 3
try:
    client.put_policy(wrong, tag)
    raise SystemExit("a wrong policy is taken")
except mpbond.Error as e:
    assert (e.status, e.place["line"]) == (422, 3), e
right = wrong.replace("0", "25")
new = client.put_policy(right, tag)
assert client.policy() == (right, new)
assert client.explain(port=25)["action"] == "refuse"
costly = '[[link]]\nname = "helper"\ncost = 3\n'
client.put_policy(right + costly, new)
assert client.policy_mode() == "auto"
assert client.set_policy_mode("saver") == "saver"
text, tag = client.policy()
assert text == right + costly + '\n[policy]\nmode = "saver"\n', text
client.put_policy(right, tag)
assert [d["role"] for d in client.devices()] == ["proxy", "helper"]
assert client.begin_pairing(listen="127.0.0.1:0")["state"] == "waiting"
assert len(client.pairing()["code"]) == 9
try:
    client.answer_pairing("x", True)
    raise SystemExit("nobody has called")
except mpbond.Error as e:
    assert e.status == 409, e
assert client.cancel_pairing()["state"] == "none"
samples = client.samples(every_ms=100)
first, second = next(samples), next(samples)
assert first["at_s"] < second["at_s"], (first, second)
assert {link["name"] for link in second["links"]} == {"own", "helper"}
samples.close()
own = next(client.streams())
assert client.set_class(own["client"], "interactive")["class"] == "interactive"
assert client.stream(own["id"])["class"] == "interactive"
assert client.explain_stream(own["client"])["links"][0]["name"] == "own"
assert client.mark_chunk_end(own["id"], download=10, upload=20)["id"] == own["id"]
assert client.set_facts("own", metered=True, roaming=None)["metered"] is True
assert client.set_mode("own", "off")["mode"] == "off"
assert client.link("own")["state"] == "off"
client.set_mode("own", "bonded")
assert [d["role"] for d in client.unpair(client.devices()[1]["id"])] == ["proxy"]
kinds = []
for event in client.events(since=0, timeout=10):
    assert event["id"] == len(kinds) + 1
    kinds.append(event["type"])
    if len(kinds) == 7:
        break
assert kinds[2:] == 4 * ["policy.changed"] + ["link.down"], kinds
"#;
    let mut python = Command::new("python3");
    python.args(["-c", script]);
    python.env("PYTHONPATH", document("clients/python"));
    run_client(python.env("PYTHONDONTWRITEBYTECODE", "1"));
}

#[test]
fn the_client_for_node_works() {
    if Command::new("node").arg("--version").output().is_err() {
        return Need::Node.is_missing("node is not installed");
    }
    let script = r#"
import assert from "node:assert/strict";
const { ApiError, Client } = await import(process.env.CLIENT);

const [path, destination] = process.argv.slice(1);
const client = new Client(path);
assert.equal((await client.status()).role, "primary");
const destinations = [];
for await (const stream of client.streams(1)) destinations.push(stream.destination);
for await (const stream of client.streams(1, { app: "none such & more" })) destinations.push("wrong");
assert.deepEqual(destinations, [destination, destination]);
for await (const stream of client.streams(1, { app: undefined, destination })) {
  assert.equal(stream.destination, destinations.pop());
}
assert.deepEqual(destinations, []);
const names = (await client.links()).map((link) => link.name).sort();
assert.deepEqual(names, ["helper", "own"]);
const { text, tag } = await client.policy();
assert.equal(text, "");
const wrong = '[[rule]]\nname = "x"\nport = 0\nset = "refuse"\n';
assert.equal((await client.checkPolicy(wrong))[0].line, 3);
const refused = await client.putPolicy(wrong, tag).catch((e) => e);
assert.ok(refused instanceof ApiError, String(refused));
assert.deepEqual([refused.status, refused.place.line], [422, 3]);
const right = wrong.replace("0", "25");
const after = await client.putPolicy(right, tag);
assert.deepEqual(await client.policy(), { text: right, tag: after });
assert.equal((await client.explain({ port: 25 })).action, "refuse");
assert.equal(await client.policyMode(), "auto");
const useless = await client.setPolicyMode("saver").catch((e) => e);
assert.equal(useless.status, 422);
assert.deepEqual((await client.devices()).map((d) => d.role), ["proxy", "helper"]);
assert.equal((await client.beginPairing({ listen: "127.0.0.1:0" })).state, "waiting");
assert.equal((await client.pairing()).code.length, 9);
assert.equal((await client.answerPairing("x", true).catch((e) => e)).status, 409);
assert.equal((await client.cancelPairing()).state, "none");
const samples = client.samples({ everyMs: 100 });
const [first, second] = [(await samples.next()).value, (await samples.next()).value];
assert.ok(first.at_s < second.at_s);
assert.deepEqual(second.links.map((link) => link.name).sort(), ["helper", "own"]);
await samples.return();
const { value: own } = await client.streams().next();
assert.equal((await client.setClass(own.client, "realtime")).class, "realtime");
assert.equal((await client.stream(own.id)).class, "realtime");
assert.equal((await client.explainStream(own.client)).links[0].name, "own");
assert.equal((await client.markChunkEnd(own.id, { download: 10 })).id, own.id);
assert.equal((await client.setFacts("own", { metered: true, roaming: null })).metered, true);
assert.equal((await client.setMode("own", "off")).mode, "off");
assert.equal((await client.link("own")).state, "off");
await client.setMode("own", "bonded");
const [, helper] = await client.devices();
assert.deepEqual((await client.unpair(helper.id)).map((d) => d.role), ["proxy"]);
const kinds = [];
for await (const event of client.events({ since: 0, timeoutMs: 10_000 })) {
  assert.equal(event.id, kinds.push(event.type));
  if (kinds.length === 4) break;
}
assert.deepEqual(kinds.slice(2), ["policy.changed", "link.down"]);
// The link that was switched on again may still come up.
let none;
for (let i = 0; i < 100 && !(none instanceof Error); i++) {
  none = await client.events({ timeoutMs: 50 }).next().catch((e) => e);
}
assert.match(String(none), /nothing came for 50 ms/);
"#;
    let mut node = Command::new("node");
    node.args(["--input-type=module", "-e", script]);
    run_client(node.env("CLIENT", document("clients/typescript/mpbond.mjs")));
}

/// The types for TypeScript have the fields of the schema.
#[test]
fn types_for_typescript_have_all_fields_of_the_schema() {
    let types = read("clients/typescript/mpbond.d.mts");
    let document: Value = serde_json::from_str(&read("docs/openapi.json")).unwrap();
    let schemas = &document["components"]["schemas"];
    for name in [
        "Link",
        "Stream",
        "Fact",
        "Question",
        "Device",
        "Pairing",
        "Sample",
        "LinkSample",
    ] {
        let (_, rest) = types.split_once(&format!("interface {name} {{\n")).unwrap();
        let (fields, _) = rest.split_once("\n}").unwrap();
        let required = schemas[name]["required"].as_array().unwrap();
        let wanted = schemas[name]["properties"].as_object().unwrap().keys();
        let wanted: Vec<String> = wanted
            .map(|field| match required.iter().any(|r| r == field) {
                true => format!("{field}:"),
                false => format!("{field}?:"),
            })
            .collect();
        let ours = fields
            .lines()
            .filter_map(|line| line.split_whitespace().next());
        let mut ours: Vec<&str> = ours.collect();
        ours.sort_unstable();
        let mut wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
        wanted.sort_unstable();
        assert_eq!(ours, wanted, "{name}");
    }
}
