//! docs/openapi.json: its schemas are those of the types of requests and answers (ADR 0062).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use mpbond_policy::Explanation;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde::Serialize as _;
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Map, Value};

use super::{attempt, compare, devices, explain, links, mode, pairing, policy, samples, streams};
use crate::api::{ErrorBody, Line};
use crate::status::Status;

const UPDATE: &str = "MPBOND_TEST_UPDATE";

/// Beginning of the last part of the document, which is made here.
const SCHEMAS: &str = "\n  \"schemas\": ";

/// End of the document.
const END: &str = "\n }\n}\n";

/// Beginning of a reference to a schema.
const REFERENCE: &str = "#/components/schemas/";

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json")
}

/// Schemas of types, by their names.
struct Schemas(SchemaGenerator);

impl Schemas {
    fn new(settings: SchemaSettings) -> Self {
        let settings = settings.with_transform(RecursiveTransform(tidied));
        let settings = settings.with(|s| s.definitions_path = "/components/schemas".into());
        Self(settings.into_generator())
    }

    fn with<T: JsonSchema>(mut self) -> Self {
        self.0.subschema_for::<T>();
        self
    }

    fn all(mut self) -> Map<String, Value> {
        self.0.take_definitions(true)
    }
}

/// No defaults: a field that is left out of a change is not one that is null. Descriptions without
/// the line ends of the source.
fn tidied(schema: &mut Schema) {
    schema.remove("default");
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.replace('\n', " ");
    }
}

/// What an answer may lack is never null in it: `skip_serializing_if` names `Option::is_none` at
/// every option.
fn as_serialised(schema: &mut Schema) {
    let required = schema.get("required").cloned().unwrap_or_default();
    let required: Vec<_> = required.as_array().into_iter().flatten().collect();
    let properties = schema.get_mut("properties");
    let properties = properties.and_then(Value::as_object_mut).into_iter();
    for (name, property) in properties.flatten() {
        if !required.iter().any(|r| r.as_str() == Some(name)) {
            without_null(property);
        }
    }
}

fn without_null(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else {
        return;
    };
    if let Some(Value::Array(kinds)) = fields.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [one] = &mut kinds[..] {
            let one = one.take();
            fields.insert("type".to_owned(), one);
        }
    }
    if let Some(Value::Array(kinds)) = fields.get_mut("anyOf") {
        kinds.retain(|kind| kind["type"] != "null");
        if let [Value::Object(one)] = &mut kinds[..] {
            let one = std::mem::take(one);
            fields.remove("anyOf");
            fields.extend(one);
        }
    }
}

/// The schemas of all types that requests and answers have.
fn schemas() -> Map<String, Value> {
    let requests = Schemas::new(SchemaSettings::draft2020_12().for_deserialize())
        .with::<explain::Question>()
        .with::<links::Change>()
        .with::<mode::Change>()
        .with::<pairing::Begin>()
        .with::<pairing::Consent>()
        .with::<streams::Change>();
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let answers = Schemas::new(settings.with_transform(RecursiveTransform(as_serialised)))
        .with::<attempt::Body>()
        .with::<compare::Compared>()
        .with::<devices::Devices>()
        .with::<explain::StreamExplanation<'static>>()
        .with::<links::Links>()
        .with::<mode::Body>()
        .with::<policy::Checked>()
        .with::<samples::Sample>()
        .with::<streams::Page>()
        .with::<ErrorBody<'static>>()
        .with::<Explanation<'static>>()
        .with::<Line<'static>>()
        .with::<Status>();
    let mut all = answers.all();
    for (name, schema) in requests.all() {
        let known = all.entry(&name).or_insert_with(|| schema.clone());
        assert_eq!(*known, schema, "{name} differs in requests and answers");
    }
    all
}

/// The document with these schemas in place of its own.
fn with_schemas(document: &str, schemas: &Map<String, Value>) -> String {
    let mut text = Vec::new();
    let formatter = PrettyFormatter::with_indent(b" ");
    let mut serializer = Serializer::with_formatter(&mut text, formatter);
    schemas.serialize(&mut serializer).unwrap();
    let text = String::from_utf8(text).unwrap().replace('\n', "\n  ");
    let (paths, _) = document.split_once(SCHEMAS).unwrap();
    format!("{paths}{SCHEMAS}{text}{END}")
}

#[test]
fn the_schemas_of_openapi_json_are_those_of_the_types() {
    let written = std::fs::read_to_string(file()).unwrap();
    let document = with_schemas(&written, &schemas());
    if std::env::var_os(UPDATE).is_some() {
        return std::fs::write(file(), document).unwrap();
    }
    let mut lines = written.lines().zip(document.lines()).zip(1..);
    let differs = lines.find(|((written, made), _)| written != made);
    assert!(
        written == document,
        "docs/openapi.json differs from the types at {differs:?}: {UPDATE}=1 cargo test -p mpbond \
         --lib openapi_json writes it anew"
    );
}

/// Names of the schemas to which a value refers.
fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            let name = fields.get("$ref").and_then(Value::as_str);
            found.extend(name.map(|name| name.strip_prefix(REFERENCE).unwrap().to_owned()));
            fields.values().for_each(|field| references(field, found));
        }
        Value::Array(values) => values.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[test]
fn the_resources_of_openapi_json_refer_to_all_schemas_and_to_no_others() {
    let document = std::fs::read_to_string(file()).unwrap();
    let document: Value = serde_json::from_str(&document).unwrap();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let mut used = BTreeSet::new();
    references(&document["paths"], &mut used);
    let mut seen = BTreeSet::new();
    while let Some(name) = used.difference(&seen).next().cloned() {
        let schema = schemas.get(&name);
        references(
            schema.unwrap_or_else(|| panic!("no schema {name}")),
            &mut used,
        );
        seen.insert(name);
    }
    assert_eq!(used, schemas.keys().cloned().collect());
}
