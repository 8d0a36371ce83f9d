//! The public library in one process: servers over in-memory streams, without the binary.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    unreachable_pub,
    reason = "tests set up real files and fail by panicking"
)]

use ptc_fs_mcp::{Config, ConfigError, Limits, Root, Server};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use table::{Connection, HALF, check, probe};
use tokio::io::{
    AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf,
};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

#[path = "wire/table.rs"]
mod table;

/// Against a hang: far beyond what any answer takes.
const DEADLINE: Duration = Duration::from_secs(30);

fn server(root: &Path, include: &str) -> Server {
    let config = Config::builder().root(root).include(include).build().unwrap();
    Server::new(Root::open_ambient(&config).unwrap()).unwrap()
}

/// The client's end of a connection to a server that runs in this process.
struct Client {
    read: BufReader<ReadHalf<DuplexStream>>,
    write: WriteHalf<DuplexStream>,
    task: JoinHandle<()>,
}

impl Client {
    fn connect(server: &Server) -> Self {
        // A small buffer, so that messages cross it in parts.
        let (ours, theirs) = tokio::io::duplex(512);
        let task = tokio::spawn(server.clone().serve(theirs));
        let (read, write) = tokio::io::split(ours);
        Self { read: BufReader::new(read), write, task }
    }

    async fn request(&mut self, method: &str, mut params: Value) -> Value {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let line = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string() + "\n";
        let mut answer = String::new();
        let exchange = async {
            self.write.write_all(line.as_bytes()).await.unwrap();
            self.read.read_line(&mut answer).await.unwrap();
        };
        tokio::time::timeout(DEADLINE, exchange).await.unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["id"], 1, "{answer}");
        answer
    }

    /// The structured result of a call, or the text of its refusal.
    async fn call(&mut self, tool: &str, arguments: Value) -> Result<Value, String> {
        let answer = self.request("tools/call", json!({ "name": tool, "arguments": arguments })).await;
        let result = &answer["result"];
        match result["isError"].as_bool() {
            Some(false) => Ok(result["structuredContent"].clone()),
            Some(true) => Err(result["content"][0]["text"].as_str().unwrap().to_owned()),
            None => panic!("{answer}"),
        }
    }

    /// Ends the input, and fails unless the server then ends.
    async fn end(self) {
        drop((self.read, self.write));
        tokio::time::timeout(DEADLINE, self.task).await.unwrap().unwrap();
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap()
}

fn run(test: impl Future<Output = ()>) {
    runtime().block_on(test);
}

/// The same client, for a test that is not asynchronous itself.
struct Blocking {
    runtime: Runtime,
    client: Client,
}

impl Blocking {
    fn connect(root: &Path) -> Self {
        let runtime = runtime();
        let server = server(root, "**");
        let client = runtime.block_on(async { Client::connect(&server) });
        Self { runtime, client }
    }

    /// Ends the input, fails unless the server then ends, and gives what it still said.
    fn end(self) -> String {
        let Client { mut read, mut write, task } = self.client;
        let rest = async {
            write.shutdown().await.unwrap();
            let mut rest = String::new();
            read.read_to_string(&mut rest).await.unwrap();
            task.await.unwrap();
            rest
        };
        self.runtime.block_on(async { tokio::time::timeout(DEADLINE, rest).await.unwrap() })
    }
}

impl Connection for Blocking {
    fn send(&mut self, bytes: &[u8]) {
        let sent = async { tokio::time::timeout(DEADLINE, self.client.write.write_all(bytes)).await };
        self.runtime.block_on(sent).unwrap().unwrap();
    }

    fn next(&mut self) -> String {
        let mut line = String::new();
        let read = async { tokio::time::timeout(DEADLINE, self.client.read.read_line(&mut line)).await };
        self.runtime.block_on(read).unwrap().unwrap();
        line.strip_suffix('\n').unwrap().to_owned()
    }
}

#[test]
fn every_line_has_its_answer_over_a_stream_in_memory() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a.txt"), "alpha\n").unwrap();
    let mut connection = Blocking::connect(directory.path());
    check(&mut connection);
    assert_eq!(connection.end(), "");
}

#[test]
fn the_end_of_a_stream_in_memory_ends_the_last_line() {
    let directory = tempfile::tempdir().unwrap();
    for (line, answer) in [(HALF.0.to_owned(), HALF.1.to_owned()), probe(0)] {
        let mut connection = Blocking::connect(directory.path());
        connection.send(line.as_bytes());
        assert_eq!(connection.end(), answer + "\n");
    }
}

#[test]
fn two_servers_of_different_authority_share_a_root_in_one_process() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("docs")).unwrap();
        std::fs::write(directory.path().join("docs/guide.txt"), "guide\n").unwrap();
        std::fs::write(directory.path().join("old.md"), "old\n").unwrap();
        let (reader, writer) = (server(directory.path(), "docs/**"), server(directory.path(), "*.md"));
        assert!(writer.can_write() && !reader.can_write());
        let (mut reader, mut writer) = (Client::connect(&reader), Client::connect(&writer));

        let guide = json!({ "path": "docs/guide.txt" });
        let note = json!({ "path": "note.md" });
        let write = json!({ "path": "note.md", "content": "note\n" });
        assert_eq!(reader.call("read_text_file", guide.clone()).await.unwrap()["items"][0]["text"], "guide\n");
        assert_eq!(writer.call("read_text_file", guide).await.unwrap_err(), "path is not served by this root");
        assert!(reader.call("write_text_file", write.clone()).await.unwrap_err().starts_with("no --include pattern"));
        assert!(!directory.path().join("note.md").exists());
        assert_eq!(writer.call("write_text_file", write).await.unwrap()["bytes"], 5);
        assert_eq!(writer.call("read_text_file", note.clone()).await.unwrap()["items"][0]["text"], "note\n");
        assert_eq!(reader.call("read_text_file", note).await.unwrap_err(), "path is not served by this root");
        let listing = |result: Value| -> Vec<String> {
            result["items"].as_array().unwrap().iter().map(|item| item["path"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(listing(reader.call("list_directory", json!({})).await.unwrap()), ["docs"]);
        assert_eq!(listing(writer.call("list_directory", json!({})).await.unwrap()), ["note.md", "old.md"]);
        reader.end().await;
        // The one goes on without the other.
        assert_eq!(writer.call("list_directory", json!({})).await.unwrap()["next_cursor"], json!(null));
        writer.end().await;
    });
}

#[test]
fn two_servers_of_different_authority_are_made_of_one() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let whole = server(directory.path(), "**");
        let reader = whole.clone().with_tools(["read_text_file", "search_text"]).unwrap();
        let reader = reader.with_identity("notes reader", "2.1").unwrap();
        let writer = whole.with_tools(["write_text_file"]).unwrap();
        assert!(writer.can_write() && !reader.can_write());
        let (mut reader, mut writer) = (Client::connect(&reader), Client::connect(&writer));
        let names = |answer: Value| -> Vec<String> {
            let tools = answer["result"]["tools"].as_array().unwrap();
            tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names(reader.request("tools/list", json!({})).await), ["search_text", "read_text_file"]);
        assert_eq!(names(writer.request("tools/list", json!({})).await), ["write_text_file"]);
        writer.call("write_text_file", json!({ "path": "note", "content": "note" })).await.unwrap();
        let read = json!({ "path": "note" });
        assert_eq!(reader.call("read_text_file", read.clone()).await.unwrap()["items"][0]["text"], "note");
        let unknown = |tool: &str| json!({ "code": -32602, "message": format!("Unknown tool: {tool}") });
        let call = |tool: &str| json!({ "name": tool, "arguments": read });
        let answer = writer.request("tools/call", call("read_text_file")).await;
        assert_eq!(answer["error"], unknown("read_text_file"));
        for tool in ["write_text_file", "list_directory"] {
            assert_eq!(reader.request("tools/call", call(tool)).await["error"], unknown(tool));
        }
        // What a server says of itself speaks of the tools it has.
        let discovered = reader.request("server/discover", json!({})).await["result"].take();
        let identity = json!({ "name": "notes reader", "version": "2.1" });
        assert_eq!(discovered["_meta"]["io.modelcontextprotocol/serverInfo"], identity);
        assert!(!discovered["instructions"].as_str().unwrap().contains("list_directory"), "{discovered}");
        let listed = reader.request("tools/list", json!({})).await;
        assert_eq!(listed["result"]["_meta"]["io.modelcontextprotocol/serverInfo"], identity);
        let discovered = writer.request("server/discover", json!({})).await["result"].take();
        assert!(!discovered["instructions"].as_str().unwrap().contains("cursor"), "{discovered}");
        reader.end().await;
        writer.end().await;
    });
}

#[test]
fn a_held_directory_is_a_root_wherever_it_is_moved_and_keeps_its_own_place_in_the_callers_listing() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let (before, after) = (directory.path().join("before"), directory.path().join("after"));
        std::fs::create_dir(&before).unwrap();
        for number in 0..20 {
            std::fs::write(before.join(number.to_string()), "x").unwrap();
        }
        let config = Config::builder().include("**").build().unwrap();
        let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
        for access in [rustix::fs::OFlags::PATH, rustix::fs::OFlags::RDONLY] {
            let held = rustix::fs::open(&before, flags | access, rustix::fs::Mode::empty()).unwrap();
            // Shares its place in the listing with what the server is given.
            let shared = held.try_clone().unwrap();
            let root = Root::from_dir(cap_std::fs::Dir::from(held), &config).unwrap();
            let mut client = Client::connect(&Server::new(root).unwrap());
            std::fs::rename(&before, &after).unwrap();
            assert_eq!(client.call("list_directory", json!({})).await.unwrap()["items"].as_array().unwrap().len(), 20);
            client.call("write_text_file", json!({ "path": "new", "content": "x" })).await.unwrap();
            assert!(after.join("new").exists());
            if access == rustix::fs::OFlags::RDONLY {
                let place = rustix::fs::seek(&shared, rustix::fs::SeekFrom::Current(0)).unwrap();
                assert_eq!(place, 0, "the caller's listing was not touched");
            }
            client.end().await;
            std::fs::remove_file(after.join("new")).unwrap();
            std::fs::rename(&after, &before).unwrap();
        }
    });
}

#[test]
fn what_is_no_directory_that_can_be_listed_is_no_root() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let config = Config::builder().include("**").build().unwrap();
    let held = |path: &Path| cap_std::fs::Dir::from_std_file(std::fs::File::open(path).unwrap());
    assert_eq!(Root::from_dir(held(&file), &config).unwrap_err(), ConfigError::RootNotDirectory);
    let kernel = Root::from_dir(held(Path::new("/proc")), &config).unwrap_err();
    assert_eq!(kernel, ConfigError::RootOnKernelFilesystem);
    assert!(Root::from_dir(held(directory.path()), &config).is_ok());
}

#[test]
fn tools_and_names_that_a_server_cannot_have_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let server = server(directory.path(), "**");
    let unknown = server.clone().with_tools(["read_text_file", "nope"]).unwrap_err();
    assert_eq!(unknown.to_string(), "unknown tool in --tools: nope");
    assert_eq!(server.clone().with_tools([""; 0]).unwrap_err().to_string(), "--tools names no tool");
    assert!(!server.clone().with_tools(["read-only"]).unwrap().offers("write_text_file"));
    let most = "x".repeat(64);
    assert!(server.clone().with_identity(&*most, &*most).is_ok());
    for (name, version) in
        [("", "1"), ("a", ""), ("a\nb", "1"), (&*format!("{most}x"), "1"), ("a", &*format!("{most}x"))]
    {
        let error = server.clone().with_identity(name, version).unwrap_err();
        assert_eq!(error.to_string(), "name and version must be 1 to 64 characters without control characters");
    }
}

#[test]
fn a_client_of_the_2025_era_is_served_where_it_is_accepted() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let server = server(directory.path(), "**");
        for (server, served) in [(server.clone(), false), (server.accept_legacy(), true)] {
            let (ours, theirs) = tokio::io::duplex(512);
            let task = tokio::spawn(server.serve(theirs));
            let (read, mut write) = tokio::io::split(ours);
            write.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").await.unwrap();
            let mut answer = String::new();
            BufReader::new(read).read_line(&mut answer).await.unwrap();
            let answer: Value = serde_json::from_str(&answer).unwrap();
            assert_eq!(answer.get("result").is_some(), served, "{answer}");
            drop(write);
            tokio::time::timeout(DEADLINE, task).await.unwrap().unwrap();
        }
    });
}

#[test]
fn a_cursor_is_honoured_by_every_connection_of_its_server_and_by_no_other_server() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            std::fs::write(directory.path().join(name), name).unwrap();
        }
        let (one, other) = (server(directory.path(), "**"), server(directory.path(), "**"));
        let (mut first, mut second) = (Client::connect(&one), Client::connect(&one));
        let mut stranger = Client::connect(&other);
        let page = first.call("list_directory", json!({ "limit": 1 })).await.unwrap();
        let next = json!({ "limit": 1, "cursor": page["next_cursor"].as_str().unwrap() });
        assert_eq!(second.call("list_directory", next.clone()).await.unwrap()["items"][0]["name"], "b");
        assert_eq!(stranger.call("list_directory", next).await.unwrap_err(), "cursor is not valid");
        for client in [first, second, stranger] {
            client.end().await;
        }
    });
}

#[test]
fn a_large_result_crosses_a_small_stream_whole() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let text = "line\n".repeat(3000);
        std::fs::write(directory.path().join("a"), &text).unwrap();
        let mut client = Client::connect(&server(directory.path(), "**"));
        let page = client.call("read_text_file", json!({ "path": "a" })).await.unwrap();
        let chunks: String =
            page["items"].as_array().unwrap().iter().map(|item| item["text"].as_str().unwrap()).collect();
        assert_eq!(chunks, text);
        let answer = client.request("server/discover", json!({})).await;
        assert_eq!(answer["result"]["capabilities"], json!({ "tools": {} }));
        client.end().await;
    });
}

#[test]
fn a_configuration_that_is_not_valid_is_a_value_that_says_why() {
    assert_eq!(Config::builder().root(".").build().unwrap_err(), ConfigError::IncludeRequired);
    let rootless = Config::builder().include("**").build().unwrap();
    assert_eq!(Root::open_ambient(&rootless).unwrap_err(), ConfigError::RootRequired);
    let limits = Limits { max_result_bytes: 35_999, ..Limits::DEFAULT };
    let error = Config::builder().root(".").include("**").limits(limits).build().unwrap_err();
    assert_eq!(error.to_string(), "--max-result-bytes must be an integer from 36000 to 4194304");
    let error = Config::builder().root(".").include("a?").build().unwrap_err();
    assert_eq!(error.to_string(), "--include pattern can never match: a? (write a*)");
    for limits in [
        Limits { long_calls: 0, ..Limits::DEFAULT },
        Limits { short_calls: 0, ..Limits::DEFAULT },
        Limits { walk_files: 0, ..Limits::DEFAULT },
        Limits { walk_entries: 0, ..Limits::DEFAULT },
    ] {
        assert!(matches!(Config::builder().include("**").limits(limits).build(), Err(ConfigError::Limit { .. })));
    }
}

#[test]
fn a_walk_bound_fails_the_call_with_a_text_that_names_it() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            std::fs::write(directory.path().join(name), "x").unwrap();
        }
        for (limits, text) in [
            (Limits { walk_files: 2, ..Limits::DEFAULT }, "the walk passes the limit of 2 files"),
            (Limits { walk_entries: 2, ..Limits::DEFAULT }, "the walk passes the limit of 2 entries"),
        ] {
            let config = Config::builder().root(directory.path()).include("**").limits(limits).build().unwrap();
            let mut client = Client::connect(&Server::new(Root::open_ambient(&config).unwrap()).unwrap());
            assert_eq!(client.call("search_files", json!({ "query": "a" })).await.unwrap_err(), text);
            client.end().await;
        }
        let limits = Limits { walk_files: 3, walk_entries: 3, ..Limits::DEFAULT };
        let config = Config::builder().root(directory.path()).include("**").limits(limits).build().unwrap();
        let mut client = Client::connect(&Server::new(Root::open_ambient(&config).unwrap()).unwrap());
        assert_eq!(
            client.call("search_files", json!({ "query": "a" })).await.unwrap()["items"],
            json!([{ "path": "a" }])
        );
        client.end().await;
    });
}

#[test]
fn many_calls_at_once_are_all_answered_when_few_may_run() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("a"), "x").unwrap();
        let limits = Limits { long_calls: 1, short_calls: 1, ..Limits::DEFAULT };
        let config = Config::builder().root(directory.path()).include("**").limits(limits).build().unwrap();
        let server = Server::new(Root::open_ambient(&config).unwrap()).unwrap();
        let tasks: Vec<_> = (0..20)
            .map(|_| {
                let mut client = Client::connect(&server);
                tokio::spawn(async move {
                    let page = client.call("search_text", json!({ "query": "x" })).await.unwrap();
                    assert_eq!(page["items"], json!([{ "path": "a", "line": 1, "text": "x" }]));
                    client.end().await;
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}
