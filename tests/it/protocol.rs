//! What holds for the answers to all methods; each single answer stands in `tests/wire`.

use crate::harness::{Backend, SECRET, Server, Tree};
use serde_json::{Value, json};

pub const INVALID_PARAMS: i64 = -32602;
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
