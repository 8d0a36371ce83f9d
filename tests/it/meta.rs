//! What every request carries in its `_meta`, and the version above all.

use crate::harness::{Server, VERSION};
use crate::protocol::{INVALID_PARAMS, NO_VERSION, ask, code, is_usable, serve, tree};
use serde_json::{Value, json};

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
const INFO_KEY: &str = "io.modelcontextprotocol/clientInfo";
const LEVEL_KEY: &str = "io.modelcontextprotocol/logLevel";

/// `_meta` of a valid request, with one member replaced, or removed where the value is `None`.
fn meta(key: &str, value: Option<Value>) -> Value {
    let mut meta = Server::with_meta(json!({}))["_meta"].take();
    match value {
        Some(value) => meta[key] = value,
        None => drop(meta.as_object_mut().unwrap().remove(key).expect("the member was there")),
    }
    meta
}

/// The methods that are served, with params that would succeed.
fn served() -> [(&'static str, Value); 3] {
    [("server/discover", json!({})), ("tools/list", json!({})), ("tools/call", json!({ "name": "list_directory" }))]
}

#[test]
fn a_request_without_the_required_meta_is_refused_on_every_method() {
    let tree = tree();
    let mut server = serve(&tree);
    for (method, params) in served() {
        assert_eq!(code(&ask(&mut server, &tree, method, None)), INVALID_PARAMS, "{method} without params");
        assert_eq!(
            code(&ask(&mut server, &tree, method, Some(params.clone()))),
            INVALID_PARAMS,
            "{method} without _meta"
        );
        for meta in [
            json!(null),
            json!(1),
            json!([]),
            json!({}),
            meta(VERSION_KEY, None),
            meta(VERSION_KEY, Some(json!(null))),
            meta(VERSION_KEY, Some(json!(20_260_728))),
            meta(VERSION_KEY, Some(json!([VERSION]))),
            meta(CAPABILITIES_KEY, None),
            meta(CAPABILITIES_KEY, Some(json!(null))),
            meta(CAPABILITIES_KEY, Some(json!("tools"))),
            meta(CAPABILITIES_KEY, Some(json!([]))),
            meta(INFO_KEY, Some(json!("me"))),
            meta(INFO_KEY, Some(json!({}))),
            meta(INFO_KEY, Some(json!({ "name": 1, "version": "1" }))),
            meta(INFO_KEY, Some(json!({ "name": "me" }))),
            meta(LEVEL_KEY, Some(json!("loud"))),
            meta(LEVEL_KEY, Some(json!(3))),
        ] {
            let mut params = params.clone();
            params["_meta"] = meta.clone();
            assert_eq!(code(&ask(&mut server, &tree, method, Some(params))), INVALID_PARAMS, "{method} {meta}");
        }
    }
    is_usable(&mut server);
}

#[test]
fn optional_and_unknown_meta_is_accepted() {
    let tree = tree();
    let mut server = serve(&tree);
    for (method, params) in served() {
        for meta in [
            meta(INFO_KEY, Some(json!({ "name": "me", "version": "1", "title": "Me", "extra": { "a": [1] } }))),
            meta(
                CAPABILITIES_KEY,
                Some(json!({ "roots": {}, "sampling": {}, "elicitation": {}, "novel": { "x": 1 } })),
            ),
            meta(LEVEL_KEY, Some(json!("debug"))),
            meta(LEVEL_KEY, Some(json!("emergency"))),
            meta("progressToken", Some(json!("t"))),
            meta("progressToken", Some(json!(7))),
            meta("com.example/trace", Some(json!({ "id": 1 }))),
        ] {
            let mut params = params.clone();
            params["_meta"] = meta.clone();
            let answer = ask(&mut server, &tree, method, Some(params));
            assert_eq!(answer["result"]["resultType"], "complete", "{method} {meta} {answer}");
        }
    }
}

#[test]
fn an_unsupported_version_is_refused_on_any_request_whatever_else_is_wrong_with_it() {
    let tree = tree();
    let mut server = serve(&tree);
    is_usable(&mut server);
    let requests = [
        ("server/discover", json!({})),
        ("tools/list", json!({})),
        ("tools/list", json!({ "cursor": "x" })),
        ("tools/call", json!({ "name": "list_directory" })),
        ("tools/call", json!({ "name": "nope" })),
        ("tools/call", json!({})),
        ("tools/call", json!({ "name": "list_directory", "arguments": [] })),
        ("ping", json!({})),
        ("initialize", json!({ "protocolVersion": "2025-11-25", "capabilities": {} })),
        ("no/such/method", json!({})),
    ];
    for version in ["2025-11-25", "2024-11-05", "2026-07-29", "2026-07-28 ", "latest"] {
        for (method, params) in &requests {
            for others in [json!({ CAPABILITIES_KEY: {} }), json!({}), json!({ LEVEL_KEY: "loud", INFO_KEY: 1 })] {
                let mut params = params.clone();
                params["_meta"] = others;
                params["_meta"][VERSION_KEY] = json!(version);
                let answer = ask(&mut server, &tree, method, Some(params.clone()));
                assert_eq!(code(&answer), NO_VERSION, "{method} {params}");
                assert_eq!(answer["error"]["data"], json!({ "supported": [VERSION], "requested": version }));
            }
        }
        is_usable(&mut server);
    }
}
