//! The public library in one process: servers over in-memory streams, without the binary.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests set up real files and fail by panicking"
)]

use ptc_fs_mcp::{Config, ConfigError, Limits, Root, Server};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;

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

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap().block_on(test);
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
