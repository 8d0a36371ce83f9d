//! The published schemas: their profile, and that the tools keep to them.

use crate::harness::{Backend, Server, Tree};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The keywords that the strictest known host accepts.
const KEYWORDS: [&str; 16] = [
    "type",
    "title",
    "description",
    "default",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "const",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
];

const TYPES: [&str; 7] = ["object", "array", "string", "integer", "number", "boolean", "null"];

fn tools(server: &mut Server) -> Vec<Value> {
    let tools = server.request("tools/list", json!({}))["result"]["tools"].as_array().unwrap().clone();
    assert_eq!(tools.len(), 5);
    tools
}

/// Deepest nesting of objects and arrays.
fn depth(value: &Value) -> usize {
    match value {
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// Checks one schema and those within it; `open` is whether this one may have members that it does not name.
fn check(schema: &Value, open: bool, at: &str) {
    let members = schema.as_object().unwrap_or_else(|| panic!("{at} is no object: {schema}"));
    for keyword in members.keys() {
        assert!(KEYWORDS.contains(&keyword.as_str()), "{at} uses {keyword}");
    }
    let kind = members["type"].as_str().unwrap_or_else(|| panic!("{at} has no single type: {schema}"));
    assert!(TYPES.contains(&kind), "{at} is a {kind}");
    let empty = serde_json::Map::new();
    let properties = members.get("properties").map_or(&empty, |properties| properties.as_object().unwrap());
    for (name, property) in properties {
        check(property, false, &format!("{at}.{name}"));
    }
    for name in members.get("required").map_or(&Vec::new(), |names| names.as_array().unwrap()) {
        assert!(properties.contains_key(name.as_str().unwrap()), "{at} requires {name}, which it does not describe");
    }
    if kind == "object" && !open {
        assert_eq!(members["additionalProperties"], false, "{at} is open");
    }
    if kind == "array" {
        check(&members["items"], false, &format!("{at}[]"));
    }
}

#[test]
fn every_schema_stays_inside_the_profile_of_the_strictest_host() {
    let tree = Tree::new();
    for options in [&["--include", "**"][..], &["--include", "**", "--max-write-bytes", "18446744073709551615"]] {
        for tool in tools(&mut tree.serve_with(Backend::Openat2, options)) {
            let name = tool["name"].as_str().unwrap();
            for kind in ["inputSchema", "outputSchema"] {
                let schema = &tool[kind];
                assert_eq!(schema["type"], "object", "{name}");
                assert!(schema.to_string().len() <= 64 << 10, "{name}");
                assert!(depth(schema) <= 16, "{name}");
                let reader = name != "write_text_file";
                check(schema, reader && kind == "outputSchema", &format!("{name}.{kind}"));
                assert!(jsonschema::meta::is_valid(schema), "{name}.{kind}");
            }
        }
    }
}

#[test]
fn the_walk_over_schemas_finds_what_is_outside_the_profile() {
    let closed =
        |property: Value| json!({ "type": "object", "properties": { "a": property }, "additionalProperties": false });
    check(&closed(json!({ "type": "string" })), false, "good");
    for bad in [
        closed(json!({ "type": ["string", "null"] })),
        closed(json!({ "type": "string", "pattern": "a" })),
        closed(json!({ "anyOf": [{ "type": "string" }] })),
        closed(json!({ "$ref": "#" })),
        closed(json!({ "type": "object" })),
        closed(json!({ "type": "array", "items": { "type": "object" } })),
        json!({ "type": "object", "properties": {}, "required": ["a"], "additionalProperties": false }),
    ] {
        assert!(std::panic::catch_unwind(|| check(&bad, false, "bad")).is_err(), "{bad}");
    }
}

#[test]
fn a_reader_promises_closed_items_and_a_hash_and_leaves_room_for_the_cursor() {
    let tree = Tree::new();
    let items = BTreeMap::from([
        ("list_directory", BTreeSet::from(["kind", "name", "path"])),
        ("search_files", BTreeSet::from(["path"])),
        ("search_text", BTreeSet::from(["line", "path", "text"])),
        ("read_text_file", BTreeSet::from(["byte_offset", "text"])),
    ]);
    let names = |names: &Value| -> BTreeSet<String> {
        names.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
    };
    let mut seen = 0;
    for tool in tools(&mut tree.serve(Backend::Openat2)) {
        let Some(members) = items.get(tool["name"].as_str().unwrap()) else { continue };
        seen += 1;
        let schema = &tool["outputSchema"];
        assert_eq!(names(&schema["required"]), BTreeSet::from(["items".to_owned(), "content_hash".to_owned()]));
        assert_ne!(schema.get("additionalProperties"), Some(&json!(false)));
        assert!(schema["description"].as_str().unwrap().contains("next_cursor"), "{schema}");
        let item = &schema["properties"]["items"]["items"];
        assert_eq!(item["additionalProperties"], false);
        assert_eq!(names(&item["required"]), members.iter().map(|&name| name.to_owned()).collect());
        let validator = jsonschema::draft202012::new(schema).unwrap();
        for cursor in [json!(null), json!("c")] {
            assert!(validator.is_valid(&json!({ "items": [], "next_cursor": cursor, "content_hash": "sha256:" })));
        }
        assert!(
            !validator.is_valid(&json!({ "items": [{ "nope": 1 }], "next_cursor": null, "content_hash": "sha256:" }))
        );
        assert!(!validator.is_valid(&json!({ "items": [], "next_cursor": null })));
    }
    assert_eq!(seen, items.len());
}

#[test]
fn every_tool_says_what_it_is_for_and_whether_it_changes_anything() {
    let tree = Tree::new();
    for tool in tools(&mut tree.serve(Backend::Openat2)) {
        let name = tool["name"].as_str().unwrap();
        let writes = name == "write_text_file";
        assert_eq!(
            tool["annotations"],
            json!({ "readOnlyHint": !writes, "destructiveHint": writes, "idempotentHint": true, "openWorldHint": false }),
            "{name}"
        );
        assert!(!tool["title"].as_str().unwrap().is_empty(), "{name}");
        assert!(!tool["description"].as_str().unwrap().is_empty(), "{name}");
        for (argument, schema) in tool["inputSchema"]["properties"].as_object().unwrap() {
            assert!(!schema["description"].as_str().unwrap_or_default().is_empty(), "{name}: {argument}");
        }
        if let Some(meta) = tool.get("_meta") {
            assert!(meta.as_object().unwrap().keys().all(|key| !key.starts_with("io.modelcontextprotocol/")), "{name}");
        }
    }
}

#[test]
fn the_arguments_of_each_tool_are_those_of_the_contract() {
    let tree = Tree::new();
    let expected = BTreeMap::from([
        ("list_directory", (vec!["cursor", "limit", "path"], vec![])),
        ("search_files", (vec!["cursor", "limit", "query"], vec!["query"])),
        ("search_text", (vec!["cursor", "limit", "path", "query"], vec!["query"])),
        ("read_text_file", (vec!["cursor", "limit", "path"], vec!["path"])),
        ("write_text_file", (vec!["content", "path"], vec!["content", "path"])),
    ]);
    for tool in tools(&mut tree.serve(Backend::Openat2)) {
        let (arguments, required) = &expected[tool["name"].as_str().unwrap()];
        let schema = &tool["inputSchema"];
        let mut names: Vec<&str> = schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, *arguments);
        let mut names: Vec<&str> = match schema.get("required") {
            Some(required) => required.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect(),
            None => Vec::new(),
        };
        names.sort_unstable();
        assert_eq!(names, *required);
        if let Some(limit) = schema["properties"].get("limit") {
            assert_eq!((&limit["type"], &limit["minimum"], limit.get("maximum")), (&json!("integer"), &json!(1), None));
        }
    }
}

/// Validators of the input schemas, by tool.
fn inputs(server: &mut Server) -> BTreeMap<String, jsonschema::Validator> {
    tools(server)
        .iter()
        .map(|tool| {
            let validator = jsonschema::draft202012::new(&tool["inputSchema"]).unwrap();
            (tool["name"].as_str().unwrap().to_owned(), validator)
        })
        .collect()
}

#[test]
fn what_a_tool_accepts_its_schema_accepts() {
    let tree = Tree::with(&[("a.txt", "alpha\n"), ("dir/b.txt", "beta\n")]);
    let mut server = tree.serve(Backend::Openat2);
    let inputs = inputs(&mut server);
    let query = "q".repeat(256);
    for (tool, arguments) in [
        ("list_directory", json!({})),
        ("list_directory", json!({ "path": "" })),
        ("list_directory", json!({ "path": "dir//" })),
        ("list_directory", json!({ "path": "missing", "limit": 1 })),
        ("list_directory", json!({ "limit": 200 })),
        ("list_directory", json!({ "limit": 201 })),
        ("list_directory", json!({ "limit": 5.0 })),
        ("list_directory", json!({ "limit": u64::MAX })),
        ("search_files", json!({ "query": "a" })),
        ("search_files", json!({ "query": query, "limit": 3 })),
        ("search_text", json!({ "query": "a" })),
        ("search_text", json!({ "query": "*", "path": "dir", "limit": 3 })),
        ("search_text", json!({ "query": "b", "path": "dir/b.txt" })),
        ("read_text_file", json!({ "path": "a.txt" })),
        ("read_text_file", json!({ "path": "dir/b.txt", "limit": 100 })),
        ("write_text_file", json!({ "path": "w", "content": "" })),
        ("write_text_file", json!({ "path": "w".repeat(255), "content": "x" })),
        ("write_text_file", json!({ "path": "w", "content": "x".repeat(65_536) })),
    ] {
        assert!(inputs[tool].is_valid(&arguments), "the schema of {tool} refuses {arguments}");
        server.ok(tool, arguments);
    }
}

#[test]
fn a_cursor_is_accepted_by_the_schema_that_asks_for_it() {
    let tree = Tree::with(&[("a", &"x".repeat(5000)), ("a2", "x")]);
    let mut server = tree.serve(Backend::Openat2);
    let inputs = inputs(&mut server);
    for (tool, mut arguments) in [
        ("list_directory", json!({ "limit": 1 })),
        ("search_files", json!({ "query": "a", "limit": 1 })),
        ("search_text", json!({ "query": "x", "limit": 1 })),
        ("read_text_file", json!({ "path": "a", "limit": 1 })),
    ] {
        let cursor = server.ok(tool, arguments.clone()).cursor().expect("more than one page");
        arguments["cursor"] = json!(cursor);
        assert!(inputs[tool].is_valid(&arguments), "{tool} {arguments}");
        server.ok(tool, arguments);
    }
}

#[test]
fn what_a_schema_refuses_the_tool_refuses_with_a_text_that_says_why() {
    let tree = Tree::with(&[("a.txt", "alpha\n")]);
    let mut server = tree.serve(Backend::Openat2);
    let inputs = inputs(&mut server);
    let limit = "limit must be a positive integer";
    let line = "query must be one line of at most 256 UTF-8 bytes";
    let basename = "path must be one lowercase basename of letters, digits, dots, underscores, or hyphens";
    let mut table = vec![
        ("list_directory", json!({ "path": 1 }), "path must be a string"),
        ("list_directory", json!({ "path": null }), "path must be a string"),
        ("list_directory", json!({ "cursor": 1 }), "cursor must be a string"),
        ("list_directory", json!({ "query": "a" }), "unknown argument: query"),
        ("list_directory", json!({ "Path": "" }), "unknown argument: Path"),
        ("list_directory", json!({ "": 1 }), "unknown argument: "),
        ("search_files", json!({}), "query must be a non-empty string"),
        ("search_files", json!({ "query": "" }), "query must be a non-empty string"),
        ("search_files", json!({ "query": 1 }), "query must be a string"),
        ("search_files", json!({ "query": ["a"] }), "query must be a string"),
        ("search_files", json!({ "query": "q".repeat(257) }), line),
        ("search_files", json!({ "query": "a", "path": "" }), "unknown argument: path"),
        ("search_text", json!({}), "query must be a non-empty string"),
        ("search_text", json!({ "query": "" }), "query must be a non-empty string"),
        ("search_text", json!({ "query": true }), "query must be a string"),
        ("search_text", json!({ "query": "q".repeat(257) }), line),
        ("search_text", json!({ "query": "a", "path": {} }), "path must be a string"),
        ("search_text", json!({ "query": "a", "pattern": "a" }), "unknown argument: pattern"),
        ("read_text_file", json!({}), "path must be a string"),
        ("read_text_file", json!({ "path": 1 }), "path must be a string"),
        ("read_text_file", json!({ "path": "a.txt", "encoding": "utf8" }), "unknown argument: encoding"),
        ("read_text_file", json!({ "path": "a.txt", "cursor": false }), "cursor must be a string"),
        ("write_text_file", json!({}), "path must be a string"),
        ("write_text_file", json!({ "path": "w" }), "content must be a string"),
        ("write_text_file", json!({ "content": "" }), "path must be a string"),
        ("write_text_file", json!({ "path": "w", "content": 1 }), "content must be a string"),
        ("write_text_file", json!({ "path": "w", "content": null }), "content must be a string"),
        ("write_text_file", json!({ "path": "", "content": "" }), basename),
        ("write_text_file", json!({ "path": "w".repeat(256), "content": "" }), basename),
        (
            "write_text_file",
            json!({ "path": "w", "content": "x".repeat(65_537) }),
            "content exceeds the 65536-byte write limit",
        ),
        ("write_text_file", json!({ "path": "w", "content": "", "mode": 1 }), "unknown argument: mode"),
        ("write_text_file", json!({ "path": "w", "content": "", "limit": 1 }), "unknown argument: limit"),
    ];
    let readers = [
        ("list_directory", json!({})),
        ("search_files", json!({ "query": "a" })),
        ("search_text", json!({ "query": "a" })),
        ("read_text_file", json!({ "path": "a.txt" })),
    ];
    for (tool, arguments) in readers {
        for value in [json!(0), json!(-1), json!(1.5), json!("5"), json!(null), json!(true), json!([1])] {
            let mut arguments = arguments.clone();
            arguments["limit"] = value;
            table.push((tool, arguments, limit));
        }
    }
    for (tool, arguments, text) in table {
        assert!(!inputs[tool].is_valid(&arguments), "the schema of {tool} accepts {arguments}");
        let refusal = server.call(tool, arguments.clone()).unwrap_err();
        assert_eq!(refusal.text, text, "{tool} {arguments}");
    }
    assert_eq!(tree.names(), ["a.txt"]);
}

#[test]
fn a_text_about_an_unknown_argument_is_one_short_line() {
    let tree = Tree::new();
    let mut server = tree.serve(Backend::Openat2);
    for name in ["a\nb".to_owned(), "\u{7}".to_owned(), "x".repeat(100_000)] {
        let text = server.refused("list_directory", json!({ name.as_str(): 1 }));
        assert!(text.starts_with("unknown argument: ") && !text.contains(char::is_control), "{text:?}");
    }
}
