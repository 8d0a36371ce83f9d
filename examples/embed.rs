//! A server inside another program, and a client of it: `cargo run --locked --example embed`.
//!
//! The program holds a directory and gives it away as a capability; two servers of different authority are made of it.
//! Each is spoken to over an in-memory stream, as it would be over a socket.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "an example shows what it does, and opens a directory"
)]

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use ptc_fs_mcp::{Config, Root, Server};
use rmcp::model::{CallToolRequestParams, ProtocolVersion};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt as _, RoleClient, RunningService};
use serde_json::{Value, json};
use std::error::Error;

type Client = RunningService<RoleClient, ()>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let held = Dir::open_ambient_dir(directory.path(), ambient_authority())?;
    let config = Config::builder().include("**/*.md").build()?;
    let server = Server::new(Root::from_dir(held, &config)?)?;

    let writer = connect(server.clone().with_tools(["write_text_file"])?).await?;
    let reader = connect(server.with_tools(["read-only"])?.with_identity("notes", "1.0.0")?).await?;

    let written = call(&writer, "write_text_file", json!({ "path": "note.md", "content": "to be found\n" })).await?;
    println!("written:  {written}");
    println!("listed:   {}", call(&reader, "list_directory", json!({})).await?);
    println!("searched: {}", call(&reader, "search_text", json!({ "query": "found" })).await?);
    println!("read:     {}", call(&reader, "read_text_file", json!({ "path": "note.md" })).await?);
    let refused = call(&writer, "read_text_file", json!({ "path": "note.md" })).await;
    println!("refused:  {}", refused.err().ok_or("the writer cannot read")?);

    // The end of a client's stream is the end of its server.
    reader.cancel().await?;
    writer.cancel().await?;
    Ok(())
}

/// Serves over one end of a stream and gives a client of the other.
async fn connect(server: Server) -> Result<Client, Box<dyn Error>> {
    let (near, far) = tokio::io::duplex(64 * 1024);
    tokio::spawn(server.serve(far));
    let lifecycle = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
    Ok(().serve_with_lifecycle(near, lifecycle).await?)
}

/// A tool's structured result.
async fn call(client: &Client, tool: &'static str, arguments: Value) -> Result<Value, Box<dyn Error>> {
    let Value::Object(arguments) = arguments else { return Err("arguments are an object".into()) };
    let result = client.call_tool(CallToolRequestParams::new(tool).with_arguments(arguments)).await?;
    result.structured_content.ok_or_else(|| format!("{tool} was refused: {:?}", result.content).into())
}
