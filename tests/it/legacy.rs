//! Clients of the 2025 era: refused by default, served with `--accept-legacy`, request by request.

use crate::harness::{Backend, Server, Tree, VERSION, binary, finish};
use serde_json::{Value, json};

fn tree() -> Tree {
    Tree::with(&[("a.txt", "alpha\n"), ("docs/b.txt", "beta\n")])
}

fn serve(tree: &Tree) -> Server {
    tree.serve_with(Backend::Openat2, &["--include", "**", "--accept-legacy"])
}

/// A request as that era sends it, and its answer without the envelope.
fn ask(server: &mut Server, method: &str, params: Option<Value>) -> Value {
    let mut request = json!({ "jsonrpc": "2.0", "id": "old", "method": method });
    if let Some(params) = params {
        request["params"] = params;
    }
    server.send_line(&request.to_string());
    let mut answer = server.next_message();
    assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!("old")), "{answer}");
    answer.as_object_mut().unwrap().retain(|member, _| member != "jsonrpc" && member != "id");
    answer
}

fn initialize(version: &str) -> Option<Value> {
    Some(json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": "me", "version": "1" } }))
}

fn error(code: i64, message: &str) -> Value {
    json!({ "error": { "code": code, "message": message } })
}

#[test]
fn by_default_the_handshake_is_refused_with_a_text_that_names_the_option() {
    let tree = tree();
    let mut server = tree.serve(Backend::Openat2);
    let refusal = ask(&mut server, "initialize", initialize("2025-11-25"));
    let text = "this server speaks MCP 2026-07-28, which has no initialize: begin with server/discover, or start the server with --accept-legacy";
    let data = json!({ "supported": [VERSION], "requested": "2025-11-25" });
    assert_eq!(refusal, json!({ "error": { "code": -32022, "message": text, "data": data } }));
    let text = "params._meta needs io.modelcontextprotocol/protocolVersion to be a string";
    for (method, params) in [
        ("ping", None),
        ("tools/list", Some(json!({}))),
        ("tools/call", Some(json!({ "name": "list_directory" }))),
        ("tools/call", Some(json!({ "name": "list_directory", "_meta": { "progressToken": 1 } }))),
    ] {
        assert_eq!(ask(&mut server, method, params), error(-32602, text), "{method}");
    }
    server.ok("list_directory", json!({}));
}

#[test]
fn a_client_of_either_revision_is_served_from_its_handshake_to_its_end() {
    let tree = tree();
    for version in ["2025-11-25", "2025-06-18"] {
        let mut server = serve(&tree);
        let answer = ask(&mut server, "initialize", initialize(version));
        let instructions = answer["result"]["instructions"].as_str().unwrap().to_owned();
        assert!(instructions.starts_with("Files under one root directory; "), "{instructions}");
        let result = json!({
            "protocolVersion": version,
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "ptc-fs-mcp", "version": env!("CARGO_PKG_VERSION") },
            "instructions": instructions,
        });
        assert_eq!(answer, json!({ "result": result }));
        server.send_line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        assert_eq!(ask(&mut server, "ping", None), json!({ "result": {} }));
        assert_eq!(ask(&mut server, "ping", Some(json!({}))), json!({ "result": {} }));
        let read = json!({ "name": "read_text_file", "arguments": { "path": "a.txt" } });
        let answer = ask(&mut server, "tools/call", Some(read));
        assert_eq!(answer["result"]["structuredContent"]["items"], json!([{ "byte_offset": 0, "text": "alpha\n" }]));
        let finished = server.end();
        assert_eq!(finished.status.code(), Some(0));
        assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("", ""));
    }
}

#[test]
fn a_handshake_for_another_revision_is_answered_with_the_newest_of_that_era() {
    let tree = tree();
    let mut server = serve(&tree);
    for version in ["2025-03-26", "2024-11-05", "2099-01-01", "2026-07-28", "x"] {
        let answer = ask(&mut server, "initialize", initialize(version));
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25", "{version}");
    }
    let text = "protocolVersion must be a string";
    for params in [None, Some(json!({})), Some(json!({ "protocolVersion": 1 }))] {
        assert_eq!(ask(&mut server, "initialize", params), error(-32602, text));
    }
}

#[test]
fn both_eras_are_served_the_same_tools_with_the_same_results_over_one_connection() {
    let tree = tree();
    let mut server = serve(&tree);
    // Without any handshake, too: nothing is remembered.
    let old = ask(&mut server, "tools/list", None);
    let new = server.request("tools/list", json!({}));
    assert_eq!(old["result"]["tools"], new["result"]["tools"]);
    assert_eq!(old["result"]["tools"].as_array().unwrap().len(), 5);
    let members: Vec<&String> = old["result"].as_object().unwrap().keys().collect();
    assert_eq!(members, ["_meta", "tools"], "nothing that the era does not know");
    for params in [
        json!({ "name": "list_directory" }),
        json!({ "name": "list_directory", "arguments": { "path": "docs" }, "_meta": {} }),
        json!({ "name": "search_files", "arguments": { "query": "b" }, "_meta": { "progressToken": "t" } }),
        json!({ "name": "search_text", "arguments": { "query": "a", "limit": 1 } }),
        json!({ "name": "write_text_file", "arguments": { "path": "new", "content": "x" } }),
        json!({ "name": "read_text_file", "arguments": { "path": "nope" } }),
        json!({ "name": "read_text_file", "arguments": { "nope": 1 } }),
    ] {
        let old = ask(&mut server, "tools/call", Some(params.clone()));
        let mut new = server.request("tools/call", params.clone());
        let modern = new["result"].as_object_mut().unwrap();
        assert_eq!(modern.shift_remove("resultType"), Some(json!("complete")));
        // No two cursors are alike, since each says when it was issued.
        let plain = |result: &Value| -> Value {
            let mut result = result.clone();
            let cursor = result["structuredContent"]["next_cursor"].as_str().map(str::to_owned);
            if let Some(cursor) = cursor {
                result = serde_json::from_str(&result.to_string().replace(&cursor, "cursor")).unwrap();
            }
            result
        };
        assert_eq!(plain(&old["result"]), plain(&new["result"]), "{params}");
    }
    for params in [json!({ "name": "nope" }), json!({}), json!({ "name": "list_directory", "arguments": [] })] {
        let old = ask(&mut server, "tools/call", Some(params.clone()));
        assert_eq!(old["error"], server.request("tools/call", params)["error"]);
    }
}

#[test]
fn a_cursor_of_one_era_is_honoured_in_the_other() {
    let tree = tree();
    let mut server = serve(&tree);
    let first = json!({ "name": "list_directory", "arguments": { "limit": 1 } });
    let page = ask(&mut server, "tools/call", Some(first))["result"]["structuredContent"].take();
    let next = json!({ "limit": 1, "cursor": page["next_cursor"] });
    assert_eq!(server.ok("list_directory", next).column("path"), ["docs"]);
}

#[test]
fn what_neither_era_serves_is_an_unknown_method_in_both() {
    let tree = tree();
    let mut server = serve(&tree);
    for method in
        ["resources/list", "prompts/list", "logging/setLevel", "completion/complete", "nope", "server/discover"]
    {
        assert_eq!(ask(&mut server, method, Some(json!({}))), error(-32601, "method not found"), "{method}");
    }
    for method in ["ping", "initialize", "resources/list"] {
        assert_eq!(server.request(method, json!({}))["error"], error(-32601, "method not found")["error"], "{method}");
    }
    assert_eq!(ask(&mut server, "tools/list", Some(json!({ "cursor": "x" }))), error(-32602, "cursor is not valid"));
}

#[test]
fn a_request_that_carries_anything_of_the_present_revision_is_held_to_it() {
    let tree = tree();
    let mut server = serve(&tree);
    let version = "io.modelcontextprotocol/protocolVersion";
    for key in ["clientCapabilities", "clientInfo", "logLevel"] {
        let meta = json!({ format!("io.modelcontextprotocol/{key}"): {} });
        let answer = ask(&mut server, "tools/list", Some(json!({ "_meta": meta })));
        assert_eq!(answer, error(-32602, &format!("params._meta needs {version} to be a string")), "{key}");
    }
    let answer = ask(&mut server, "tools/list", Some(json!({ "_meta": { version: "2025-11-25" } })));
    assert_eq!(answer["error"]["code"], -32022);
    let answer = ask(&mut server, "tools/list", Some(json!({ "_meta": { version: VERSION } })));
    let text = "params._meta needs io.modelcontextprotocol/clientCapabilities to be an object";
    assert_eq!(answer, error(-32602, text));
    // A key of that era's own is none of ours.
    let meta = json!({ "io.modelcontextprotocol/related-task": { "taskId": "1" } });
    assert!(ask(&mut server, "tools/list", Some(json!({ "_meta": meta })))["result"].is_object());
}

#[test]
fn a_single_call_speaks_no_protocol_to_accept() {
    let tree = tree();
    for words in [&["--accept-legacy", "call", "list_directory"][..], &["call", "list_directory", "--accept-legacy"]] {
        let finished = finish(binary().args(words).arg("--root").arg(tree.root()).args(["--include", "**"]));
        assert_eq!(finished.status.code(), Some(64), "{words:?}");
        assert!(finished.stderr.contains("--accept-legacy"), "{}", finished.stderr);
    }
}
