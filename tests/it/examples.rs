//! What the README and `examples/` tell a host to run is run.

use crate::harness::{Server, Tree, binary};
use serde_json::{Map, Value, json};

const README: &str = include_str!("../../README.md");
const HOST: &str = include_str!("../../examples/ptc-host.json");

/// Where the README installs.
const BINARY: &str = "/usr/local/bin/ptc-fs-mcp";

fn servers(config: &Value) -> Map<String, Value> {
    let servers = config.get("mcpServers").or_else(|| config.get("servers")).unwrap();
    servers.as_object().unwrap().clone()
}

fn words(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect()
}

/// Starts what a configuration says, on a root of the test's own and with no environment at all.
fn start(server: &Value, tree: &Tree) -> Server {
    assert_eq!(server["command"], BINARY);
    let mut command = binary();
    command.env_clear();
    let words = words(&server["args"]);
    let root = words.iter().position(|word| *word == "--root").unwrap() + 1;
    assert!(words[root].starts_with('/'), "the root is named in full: {words:?}");
    command.args(&words[..root]).arg(tree.root()).args(&words[root + 1..]);
    Server::start(command)
}

fn listed(server: &mut Server) -> Vec<String> {
    let answer = server.request("tools/list", json!({}));
    answer["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_host_example_maps_the_tools_that_its_servers_have() {
    let servers = servers(&serde_json::from_str(HOST).unwrap());
    let mapped = |name: &str| words(&servers[name]["tools"]);
    assert_eq!(mapped("reader_workspace"), ["read_text_file", "search_text"]);
    assert_eq!(mapped("writer_workspace"), ["write_text_file"]);
    assert_ne!(servers["reader_workspace"]["args"][1], servers["writer_workspace"]["args"][1], "two roots");
    assert_eq!(servers["hermetic_workspace"]["inherit_env"], false);
    assert_eq!(servers["hermetic_workspace"]["env"], json!({}));
    for server in servers.values() {
        let tree = Tree::with(&[("a.md", "alpha\n"), ("b.json", "{}\n")]);
        let mut running = start(server, &tree);
        let listed = listed(&mut running);
        for tool in words(&server["tools"]) {
            assert!(listed.iter().any(|listed| listed == tool), "{tool}");
            let arguments = match tool {
                "read_text_file" => json!({ "path": "a.md" }),
                "write_text_file" => json!({ "path": "c.md", "content": "gamma\n" }),
                "list_directory" => json!({}),
                _ => json!({ "query": "a" }),
            };
            running.ok(tool, arguments);
        }
        let finished = running.end();
        assert_eq!((finished.status.code(), finished.stderr.as_str()), (Some(0), ""));
    }
}

/// What a configuration in the README says, and whom the words before it name.
fn configurations() -> Vec<(&'static str, Value)> {
    let mut configurations = Vec::new();
    let parts: Vec<&str> = README.split("```").collect();
    for [words, block] in parts.as_chunks::<2>().0 {
        let words = words.trim_end().rsplit("\n\n").next().unwrap();
        let server = match block.split_once('\n').unwrap() {
            ("json", json) => servers(&serde_json::from_str(json).unwrap()).into_values().next().unwrap(),
            // What such a table holds is spelled as in JSON.
            ("toml", toml) => {
                let lines = toml.lines().filter_map(|line| line.split_once(" = "));
                Value::Object(
                    lines.map(|(name, value)| (name.to_owned(), serde_json::from_str(value).unwrap())).collect(),
                )
            }
            other => panic!("{other:?}"),
        };
        configurations.push((words, server));
    }
    configurations
}

#[test]
fn every_configuration_in_the_readme_starts_a_server_that_speaks_as_its_hosts_do() {
    let row = |end: &str| README.lines().find(|line| line.starts_with("| ") && line.ends_with(end)).unwrap();
    let (modern, old) = (row("| not needed |"), row("| needed |"));
    let tree = Tree::with(&[("a.md", "alpha\n")]);
    let mut configured = Vec::new();
    for (words_before, server) in configurations() {
        let hosts = ["Claude Code", "Copilot CLI", "VS Code", "Cursor", "Codex CLI", "Gemini CLI"];
        let hosts: Vec<&str> = hosts.into_iter().filter(|host| words_before.contains(host)).collect();
        assert!(!hosts.is_empty(), "{words_before}");
        let mut running = start(&server, &tree);
        assert_eq!(listed(&mut running).len(), 5);
        running.send_line(r#"{"jsonrpc":"2.0","id":"old","method":"ping"}"#);
        let served = running.next_message().get("result").is_some();
        for host in &hosts {
            assert!(if served { old } else { modern }.contains(host), "{host}");
        }
        configured.extend(hosts);
    }
    configured.sort_unstable();
    assert_eq!(configured, ["Claude Code", "Codex CLI", "Copilot CLI", "Cursor", "Gemini CLI", "VS Code"]);
}

#[test]
fn the_readme_pins_the_version_that_this_is() {
    let version = env!("CARGO_PKG_VERSION");
    assert!(README.contains(&format!("cargo install --locked --version {version} --root /usr/local ptc-fs-mcp\n")));
}
