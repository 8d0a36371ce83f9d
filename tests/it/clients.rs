//! Clients that others made, against the built binary. `tests/clients/contract.json` says what each of them asks and
//! what it must be answered; what it sent, and how its server ended, is read from a witness between the two.

use crate::harness::{DEADLINE, Tree, VERSION, finished, skip};
use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest, ErrorCode, ProtocolVersion};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt as _, RoleClient, RunningService};
use rmcp::service::{PeerRequestOptions, ServiceError};
use rmcp::transport::TokioChildProcess;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tokio::io::AsyncReadExt as _;

/// Where the programs are, and what they read.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients");

/// The versions that the installed clients must have.
const WANTED: &str = concat!(include_str!("../clients/package.json"), include_str!("../clients/requirements.txt"));

fn contract() -> Value {
    serde_json::from_str(include_str!("../clients/contract.json")).unwrap()
}

/// The root that the contract speaks of.
fn tree() -> Tree {
    let tree = Tree::new();
    for (path, content) in contract()["files"].as_object().unwrap() {
        tree.write(path, content.as_str().unwrap());
    }
    // Some chunks would end within a character.
    tree.write("long.txt", "one line\ngr\u{f6}\u{df}e \u{20ac}\n".repeat(2400));
    // A search of it takes far longer than any test, without taking space.
    std::fs::File::create(tree.path("huge")).unwrap().set_len(1 << 40).unwrap();
    tree
}

/// The server's command line behind the witness, which leaves its record beside the root.
fn server(tree: &Tree, options: &[&str]) -> Vec<String> {
    let witness = format!("{SOURCES}/witness");
    let (above, root) = (tree.above().to_str().unwrap(), tree.root());
    let command = [&*witness, above, env!("CARGO_BIN_EXE_ptc-fs-mcp"), "--root", root.to_str().unwrap()];
    let unbounded = ["--include", "**", "--max-scan-bytes", "18446744073709551615"];
    [&command[..], &unbounded, options].concat().into_iter().map(str::to_owned).collect()
}

/// What `tests/clients/install` made. Where it is not, the test says so and stops; `CI` forbids that.
fn installed() -> Option<PathBuf> {
    let clients = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("clients");
    if std::fs::read_to_string(clients.join("installed")).is_ok_and(|installed| installed == WANTED) {
        return Some(clients);
    }
    skip("this test needs tests/clients/install to have been run");
    None
}

/// Runs a program that holds a client to the contract, on the contract's root.
fn run(program: &mut Command, tree: &Tree, options: &[&str]) {
    program.arg(tree.root()).args(server(tree, options));
    let child = program.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let finished = finished(child);
    assert_eq!(finished.status.code(), Some(0), "{program:?}\n{}{}", finished.stdout, finished.stderr);
    assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("", ""), "{program:?}");
}

fn node(clients: &Path, program: &str) -> Command {
    let mut command = Command::new("node");
    // Programs find packages beside the name that they have in the target directory.
    command.args(["--preserve-symlinks", "--preserve-symlinks-main"]).arg(clients.join(program));
    command
}

/// Reads the witness's record: how the processes opened and ended, and that the client took back what it cancelled.
fn witnessed(tree: &Tree, opening: &[&str], ended: &str) {
    let sent = std::fs::read_to_string(tree.above().join("sent")).unwrap();
    let sent: Vec<Value> = sent.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let methods: Vec<&str> = sent.iter().map(|message| message["method"].as_str().unwrap()).collect();
    assert_eq!(methods[..opening.len()], *opening);
    assert_eq!(std::fs::read_to_string(tree.above().join("ended")).unwrap(), ended, "each with success");

    let endless = &contract()["endless"];
    let tail = &sent[sent.len() - 3 * usize::try_from(endless["times"].as_u64().unwrap()).unwrap() - 1..];
    let (rounds, last) = tail.as_chunks::<3>();
    for [search, list, cancelled] in rounds {
        assert_eq!(search["params"]["arguments"], endless["arguments"]);
        assert_eq!(list["params"]["name"], "list_directory");
        assert_eq!(cancelled["method"], "notifications/cancelled");
        assert_eq!(cancelled["params"]["requestId"], search["id"]);
    }
    // More than may be at work at one time, which is 4: had they gone on, the fifth listing had never been answered.
    assert_eq!((rounds.len(), last[0]["params"]["name"].as_str()), (12, Some("list_directory")));

    // It did write.
    assert_eq!(tree.read("note.txt"), b"written\n");
    tree.outside_is_untouched();
}

#[test]
fn the_typescript_client_works_pinned_to_the_revision() {
    let Some(clients) = installed() else { return };
    let tree = tree();
    run(node(&clients, "typescript.mjs").arg("pin"), &tree, &[]);
    // It asks a process of its own, which it ends before it starts the one that it uses.
    witnessed(&tree, &["server/discover", "tools/list"], "0\n0\n");
}

#[test]
fn the_typescript_client_finds_the_revision_by_itself() {
    let Some(clients) = installed() else { return };
    let tree = tree();
    run(node(&clients, "typescript.mjs").arg("auto"), &tree, &[]);
    witnessed(&tree, &["server/discover", "tools/list"], "0\n0\n");
}

#[test]
fn the_python_client_finds_the_revision_by_itself() {
    let Some(clients) = installed() else { return };
    let tree = tree();
    run(Command::new(clients.join("python/bin/python")).arg(format!("{SOURCES}/python.py")), &tree, &[]);
    witnessed(&tree, &["server/discover", "tools/list"], "0\n");
}

#[test]
fn clients_that_negotiate_find_the_present_revision_where_the_old_ones_are_accepted_too() {
    let Some(clients) = installed() else { return };
    let (typescript, python) = (tree(), tree());
    run(node(&clients, "typescript.mjs").arg("auto"), &typescript, &["--accept-legacy"]);
    witnessed(&typescript, &["server/discover", "tools/list"], "0\n0\n");
    let mut command = Command::new(clients.join("python/bin/python"));
    run(command.arg(format!("{SOURCES}/python.py")), &python, &["--accept-legacy"]);
    witnessed(&python, &["server/discover", "tools/list"], "0\n");
}

#[test]
fn the_typescript_client_that_knows_only_initialize_works_where_that_is_accepted() {
    let Some(clients) = installed() else { return };
    let tree = tree();
    run(&mut node(&clients, "typescript-1.mjs"), &tree, &["--accept-legacy"]);
    witnessed(&tree, &["initialize", "notifications/initialized", "ping", "tools/list"], "0\n");
}

#[test]
fn the_rmcp_client_works_with_discovery() {
    let tree = tree();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(DEADLINE, Rmcp::run(&tree)).await.unwrap() });
    witnessed(&tree, &["server/discover", "tools/list"], "0\n");
}

/// The rmcp client, held to the contract as the programs hold theirs.
struct Rmcp(RunningService<RoleClient, ()>);

impl Rmcp {
    async fn run(tree: &Tree) {
        let server = server(tree, &[]);
        let mut command = tokio::process::Command::new(&server[0]);
        command.args(&server[1..]);
        let lifecycle = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
        assert_eq!(ProtocolVersion::V_2026_07_28.as_str(), VERSION);
        let (process, stderr) = TokioChildProcess::builder(command).stderr(Stdio::piped()).spawn().unwrap();
        let client = Self(().serve_with_lifecycle(process, lifecycle).await.unwrap());

        let contract = contract();
        let tools = client.0.list_all_tools().await.unwrap();
        assert_eq!(json!(tools.iter().map(|tool| &tool.name).collect::<Vec<_>>()), contract["tools"]);

        let calls = contract["calls"].as_array().unwrap();
        for call in calls {
            assert_eq!(client.success(call).await, call["result"]);
        }

        let list = &calls[0];
        assert_eq!(client.traversal(&contract["listing"]).await, *list["result"]["items"].as_array().unwrap());
        let chunks = client.traversal(&contract["reading"]).await;
        let text: String = chunks.iter().map(|chunk| chunk["text"].as_str().unwrap()).collect();
        assert!(text.as_bytes() == tree.read("long.txt"), "byte for byte");

        let refused = &contract["refused"];
        let refusal = client.0.call_tool(params(refused)).await.unwrap();
        assert_eq!(refusal.is_error, Some(true));
        assert_eq!(json!(refusal.content), json!([{ "type": "text", "text": refused["text"] }]));
        assert_eq!(refusal.structured_content, None);
        assert_eq!(json!(refusal.meta)["ptc-fs-mcp/error"], refused["kind"]);

        let unknown = &contract["unknown"];
        let error = match client.0.call_tool(params(unknown)).await {
            Err(ServiceError::McpError(error)) => error,
            other => panic!("{other:?}"),
        };
        assert_eq!((error.code, json!(error.message)), (ErrorCode::INVALID_PARAMS, unknown["message"].clone()));
        assert_eq!(json!(error.code), unknown["code"]);

        let endless = &contract["endless"];
        for _ in 0..endless["times"].as_u64().unwrap() {
            let request = ClientRequest::CallToolRequest(CallToolRequest::new(params(endless)));
            let search = client.0.send_cancellable_request(request, PeerRequestOptions::no_options()).await.unwrap();
            // Answered beside the search, and only while not all that may be at work are searches left behind.
            assert_eq!(client.success(list).await, list["result"]);
            search.cancel(None).await.unwrap();
        }
        assert_eq!(client.success(list).await, list["result"]);

        client.0.cancel().await.unwrap();
        let mut complaints = String::new();
        stderr.unwrap().read_to_string(&mut complaints).await.unwrap();
        assert_eq!(complaints, "");
    }

    async fn success(&self, call: &Value) -> Value {
        let result = self.0.call_tool(params(call)).await.unwrap();
        assert_eq!(result.is_error, Some(false), "{result:?}");
        let [block] = &result.content[..] else { panic!("not one block: {result:?}") };
        let structured = result.structured_content.unwrap();
        assert_eq!(serde_json::from_str::<Value>(&block.as_text().unwrap().text).unwrap(), structured);
        structured
    }

    async fn traversal(&self, call: &Value) -> Vec<Value> {
        let mut call = call.clone();
        let mut items = Vec::new();
        let pages = call["pages"].as_array().unwrap().clone();
        for (number, length) in pages.iter().enumerate() {
            let page = self.success(&call).await;
            assert_eq!(json!(page["items"].as_array().unwrap().len()), *length);
            assert_eq!(page["next_cursor"].is_null(), number + 1 == pages.len());
            items.extend_from_slice(page["items"].as_array().unwrap());
            call["arguments"]["cursor"] = page["next_cursor"].clone();
        }
        items
    }
}

/// A call of the contract as the client's own type.
fn params(call: &Value) -> CallToolRequestParams {
    CallToolRequestParams::new(call["name"].as_str().unwrap().to_owned())
        .with_arguments(call["arguments"].as_object().unwrap().clone())
}
