//! Methods, their answers and their errors.

use crate::harness::{Backend, SECRET, Server, Tree, VERSION};
use serde_json::{Value, json};

pub const INVALID_PARAMS: i64 = -32602;
pub const NO_METHOD: i64 = -32601;
pub const NO_VERSION: i64 = -32022;

pub fn tree() -> Tree {
    Tree::with(&[("a.txt", "alpha\n"), ("dir/b.txt", "beta\n")])
}

pub fn serve(tree: &Tree) -> Server {
    tree.serve(Backend::Openat2)
}

/// Sends a request whose `params` are exactly these and gives its answer, after the checks that hold for every answer.
pub fn ask(server: &mut Server, tree: &Tree, method: &str, params: Option<Value>) -> Value {
    let mut request = json!({ "jsonrpc": "2.0", "id": "ask", "method": method });
    if let Some(params) = params {
        request["params"] = params;
    }
    server.send_line(&request.to_string());
    let answer = server.next_message();
    assert_eq!(answer["jsonrpc"], "2.0");
    assert_eq!(answer["id"], "ask", "{answer}");
    let text = answer.to_string();
    for unwanted in [tree.above().to_str().unwrap(), SECRET, "os error", "RUST_BACKTRACE", ".rs:"] {
        assert!(!text.contains(unwanted), "{method} answers {text}");
    }
    if let Some(error) = answer.get("error") {
        let members: Vec<&str> = answer.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(members, ["jsonrpc", "id", "error"]);
        let message = error["message"].as_str().unwrap();
        assert!(!message.is_empty() && message.len() <= 1000 && !message.contains('\n'), "{message:?}");
    }
    answer
}

pub fn code(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {:.300}", answer.to_string()))
}

/// Fails unless the connection still answers.
pub fn is_usable(server: &mut Server) {
    assert_eq!(server.ok("list_directory", json!({})).column("name"), ["a.txt", "dir"]);
}

fn server_info() -> Value {
    json!({ "io.modelcontextprotocol/serverInfo": { "name": "ptc-fs-mcp", "version": env!("CARGO_PKG_VERSION") } })
}

#[test]
fn discover_tells_the_one_revision_the_tools_capability_and_the_identity() {
    let tree = tree();
    let mut server = serve(&tree);
    let mut answer = ask(&mut server, &tree, "server/discover", Some(Server::with_meta(json!({}))));
    let result = &mut answer["result"];
    let instructions = result["instructions"].take();
    assert!(!instructions.as_str().unwrap().is_empty());
    assert!(result["ttlMs"].take().as_u64().unwrap() > 0);
    assert_eq!(
        *result,
        json!({
            "resultType": "complete",
            "supportedVersions": [VERSION],
            "capabilities": { "tools": {} },
            "instructions": null,
            "ttlMs": null,
            "cacheScope": "private",
            "_meta": server_info(),
        })
    );
}

#[test]
fn discover_answers_the_same_whatever_happened_before() {
    let tree = tree();
    let mut server = serve(&tree);
    let discover = |server: &mut Server| ask(server, &tree, "server/discover", Some(Server::with_meta(json!({}))));
    let first = discover(&mut server);
    is_usable(&mut server);
    assert_eq!(
        code(&ask(&mut server, &tree, "initialize", Some(json!({ "protocolVersion": "2025-11-25" })))),
        NO_VERSION
    );
    assert_eq!(code(&ask(&mut server, &tree, "nope", Some(Server::with_meta(json!({}))))), NO_METHOD);
    assert_eq!(discover(&mut server), first);
}

#[test]
fn the_list_of_tools_is_the_same_on_every_call_and_in_every_process() {
    let tree = tree();
    let list = |server: &mut Server| ask(server, &tree, "tools/list", Some(Server::with_meta(json!({}))));
    let mut server = serve(&tree);
    let first = list(&mut server);
    is_usable(&mut server);
    assert_eq!(list(&mut server).to_string(), first.to_string());
    assert_eq!(list(&mut serve(&tree)).to_string(), first.to_string());

    let result = &first["result"];
    let names: Vec<&str> =
        result["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["list_directory", "search_files", "search_text", "read_text_file", "write_text_file"]);
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["cacheScope"], "private");
    assert!(result["ttlMs"].as_u64().unwrap() > 0);
    assert_eq!(result["_meta"], server_info());
    assert!(result.get("nextCursor").is_none(), "{result}");
}

#[test]
fn a_cursor_for_the_list_of_tools_was_never_issued_and_is_refused() {
    let tree = tree();
    let mut server = serve(&tree);
    for cursor in ["x", "", "eyJvZmZzZXQiOjB9"] {
        let answer = ask(&mut server, &tree, "tools/list", Some(Server::with_meta(json!({ "cursor": cursor }))));
        assert_eq!(code(&answer), INVALID_PARAMS, "{cursor}");
    }
    is_usable(&mut server);
}

#[test]
fn a_cursor_for_the_list_of_tools_that_is_no_string_is_refused() {
    let tree = tree();
    let mut server = serve(&tree);
    for cursor in [json!(1), json!(true), json!([]), json!({})] {
        let answer = ask(&mut server, &tree, "tools/list", Some(Server::with_meta(json!({ "cursor": cursor }))));
        assert_eq!(answer["error"]["code"], INVALID_PARAMS, "{cursor}: {:.300}", answer.to_string());
    }
    is_usable(&mut server);
}

#[test]
fn every_result_carries_its_type_and_the_identity() {
    let tree = tree();
    let mut server = serve(&tree);
    let call = |name: &str, arguments: Value| json!({ "name": name, "arguments": arguments });
    for (method, params, refused) in [
        ("server/discover", json!({}), false),
        ("tools/list", json!({}), false),
        ("tools/call", call("list_directory", json!({})), false),
        ("tools/call", call("search_files", json!({ "query": "a" })), false),
        ("tools/call", call("search_text", json!({ "query": "a" })), false),
        ("tools/call", call("read_text_file", json!({ "path": "a.txt" })), false),
        ("tools/call", call("write_text_file", json!({ "path": "c", "content": "c" })), false),
        ("tools/call", call("read_text_file", json!({ "path": "missing" })), true),
        ("tools/call", call("write_text_file", json!({ "path": "C", "content": "c" })), true),
    ] {
        let answer = ask(&mut server, &tree, method, Some(Server::with_meta(params.clone())));
        let result = &answer["result"];
        assert_eq!(result["resultType"], "complete", "{method} {params}");
        assert_eq!(
            result["_meta"]["io.modelcontextprotocol/serverInfo"],
            server_info()["io.modelcontextprotocol/serverInfo"],
            "{method} {params}"
        );
        assert_eq!(result["isError"] == true, refused, "{answer}");
    }
}

#[test]
fn an_unknown_tool_is_a_protocol_error_that_names_it() {
    let tree = tree();
    let mut server = serve(&tree);
    for name in ["x", "", "List_Directory", "list_directory ", "stat_path", "delete_path", "tools/call", "\u{e9}"] {
        let params = Server::with_meta(json!({ "name": name, "arguments": {} }));
        let answer = ask(&mut server, &tree, "tools/call", Some(params));
        assert_eq!(answer["error"], json!({ "code": INVALID_PARAMS, "message": format!("Unknown tool: {name}") }));
    }
    for name in ["a\nb".to_owned(), "\u{1b}[31m".to_owned(), "x".repeat(100_000)] {
        let answer = ask(&mut server, &tree, "tools/call", Some(Server::with_meta(json!({ "name": name }))));
        assert_eq!(code(&answer), INVALID_PARAMS);
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.starts_with("Unknown tool: ") && !message.contains(char::is_control), "{message:?}");
    }
    is_usable(&mut server);
}

#[test]
fn a_call_without_a_name_or_with_arguments_that_are_no_object_is_a_protocol_error() {
    let tree = tree();
    let mut server = serve(&tree);
    for params in [
        json!({}),
        json!({ "arguments": {} }),
        json!({ "name": null }),
        json!({ "name": 1 }),
        json!({ "name": ["list_directory"] }),
        json!({ "name": "list_directory", "arguments": [] }),
        json!({ "name": "list_directory", "arguments": "" }),
        json!({ "name": "list_directory", "arguments": 1 }),
        json!({ "name": "list_directory", "arguments": false }),
        json!({ "name": "nope", "arguments": [] }),
    ] {
        let answer = ask(&mut server, &tree, "tools/call", Some(Server::with_meta(params.clone())));
        assert_eq!(code(&answer), INVALID_PARAMS, "{params}");
    }
    is_usable(&mut server);
}

#[test]
fn arguments_that_are_null_are_no_object() {
    let tree = tree();
    let mut server = serve(&tree);
    let params = Server::with_meta(json!({ "name": "list_directory", "arguments": null }));
    assert_eq!(code(&ask(&mut server, &tree, "tools/call", Some(params))), INVALID_PARAMS);
}

#[test]
fn arguments_may_be_absent() {
    let tree = tree();
    let mut server = serve(&tree);
    let answer = ask(&mut server, &tree, "tools/call", Some(Server::with_meta(json!({ "name": "list_directory" }))));
    assert_eq!(server.judge("list_directory", &answer).unwrap().column("name"), ["a.txt", "dir"]);
    let answer = ask(&mut server, &tree, "tools/call", Some(Server::with_meta(json!({ "name": "read_text_file" }))));
    assert_eq!(server.judge("read_text_file", &answer).unwrap_err().text, "path must be a string");
}

#[test]
fn a_refused_call_is_a_result_with_one_text_and_a_kind() {
    let tree = tree();
    let mut server = serve(&tree);
    for (tool, arguments, text, kind) in [
        ("read_text_file", json!({}), "path must be a string", "invalid_argument"),
        ("read_text_file", json!({ "path": "" }), "path must name a file", "invalid_argument"),
        (
            "read_text_file",
            json!({ "path": "/etc" }),
            "path is not a relative path inside the root",
            "invalid_argument",
        ),
        ("read_text_file", json!({ "path": "missing" }), "path is not a readable regular file", "not_readable"),
        ("list_directory", json!({ "cursor": "x" }), "cursor is not valid", "invalid_cursor"),
        ("list_directory", json!({ "x": 1 }), "unknown argument: x", "invalid_argument"),
    ] {
        let refusal = server.call(tool, arguments).unwrap_err();
        assert_eq!((refusal.text.as_str(), refusal.kind.as_str()), (text, kind));
    }
}

#[test]
fn removed_and_unknown_methods_are_not_found() {
    let tree = tree();
    let mut server = serve(&tree);
    for (method, params) in [
        ("ping", json!({})),
        ("logging/setLevel", json!({ "level": "debug" })),
        ("resources/list", json!({})),
        ("resources/read", json!({ "uri": "file:///etc/passwd" })),
        ("resources/templates/list", json!({})),
        ("resources/subscribe", json!({ "uri": "file:///a" })),
        ("prompts/list", json!({})),
        ("prompts/get", json!({ "name": "x" })),
        ("completion/complete", json!({})),
        ("subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } })),
        ("subscriptions/listen", json!({})),
        ("initialize", json!({})),
        (
            "initialize",
            json!({ "protocolVersion": VERSION, "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } }),
        ),
        ("tools/List", json!({})),
        ("tools/call ", json!({ "name": "list_directory" })),
        ("list_directory", json!({})),
        ("", json!({})),
    ] {
        let answer = ask(&mut server, &tree, method, Some(Server::with_meta(params)));
        assert_eq!(code(&answer), NO_METHOD, "{method}: {answer}");
    }
    is_usable(&mut server);
}

#[test]
fn the_handshake_of_2025_is_told_what_is_served_and_the_connection_stays_usable() {
    let tree = tree();
    let mut server = serve(&tree);
    for version in ["2025-11-25", "2025-06-18", "2024-11-05"] {
        for extra in [json!({}), json!({ "progressToken": 1 })] {
            let params = json!({
                "protocolVersion": version,
                "capabilities": { "roots": { "listChanged": true } },
                "clientInfo": { "name": "old", "version": "1" },
                "_meta": extra,
            });
            let answer = ask(&mut server, &tree, "initialize", Some(params));
            assert_eq!(code(&answer), NO_VERSION, "{answer}");
            assert_eq!(answer["error"]["data"], json!({ "supported": [VERSION], "requested": version }));
            let message = answer["error"]["message"].as_str().unwrap();
            assert!(message.contains(VERSION) && message.contains("server/discover"), "{message}");
            server.send_line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
            is_usable(&mut server);
        }
    }
    for params in [None, Some(json!({})), Some(json!({ "protocolVersion": 1 })), Some(json!({ "capabilities": [] }))] {
        let answer = ask(&mut server, &tree, "initialize", params.clone());
        assert_eq!(code(&answer), NO_VERSION, "{params:?}");
        assert_eq!(answer["error"]["data"]["supported"], json!([VERSION]));
        is_usable(&mut server);
    }
}

#[test]
fn what_follows_a_refused_handshake_under_the_old_rules_is_refused_too() {
    let tree = tree();
    let mut server = serve(&tree);
    let handshake =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } });
    assert_eq!(code(&ask(&mut server, &tree, "initialize", Some(handshake))), NO_VERSION);
    assert_eq!(code(&ask(&mut server, &tree, "tools/list", Some(json!({})))), INVALID_PARAMS);
    let call = json!({ "name": "read_text_file", "arguments": { "path": "a.txt" } });
    assert_eq!(code(&ask(&mut server, &tree, "tools/call", Some(call))), INVALID_PARAMS);
}

#[test]
fn a_notification_gets_no_answer() {
    let tree = tree();
    let mut server = serve(&tree);
    for (method, params) in [
        ("notifications/initialized", None),
        ("notifications/cancelled", None),
        ("notifications/cancelled", Some(json!({ "requestId": 12345 }))),
        ("notifications/cancelled", Some(json!({ "requestId": "never" }))),
        ("notifications/cancelled", Some(json!({ "requestId": null }))),
        ("notifications/cancelled", Some(json!({ "requestId": {} }))),
        ("notifications/cancelled", Some(json!([1]))),
        ("notifications/progress", Some(json!({ "progressToken": 1, "progress": 1 }))),
        ("notifications/roots/list_changed", None),
        ("notifications/nope", Some(json!({ "a": 1 }))),
        ("server/discover", Some(Server::with_meta(json!({})))),
        ("tools/call", Some(Server::with_meta(json!({ "name": "list_directory" })))),
        ("tools/call", Some(json!(1))),
        ("", None),
    ] {
        let mut notification = json!({ "jsonrpc": "2.0", "method": method });
        if let Some(params) = params {
            notification["params"] = params;
        }
        server.send_line(&notification.to_string());
        is_usable(&mut server);
    }
    let finished = server.end();
    assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("", ""));
}

#[test]
fn a_notification_writes_nothing() {
    let tree = tree();
    let mut server = serve(&tree);
    let call = |path: &str| {
        Server::with_meta(json!({ "name": "write_text_file", "arguments": { "path": path, "content": "x" } }))
    };
    server.send_line(&json!({ "jsonrpc": "2.0", "method": "tools/call", "params": call("ghost") }).to_string());
    let answer = ask(&mut server, &tree, "tools/call", Some(call("real")));
    assert_eq!(answer["result"]["isError"], false);
    assert_eq!(server.end().status.code(), Some(0));
    assert_eq!(tree.names(), ["a.txt", "dir", "real"]);
}
