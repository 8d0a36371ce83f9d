// The TypeScript client that begins with `initialize`: typescript-1.mjs ROOT COMMAND ARGUMENT...
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { check } from "./checks.mjs";

const [root, command, ...args] = process.argv.slice(2);
const client = new Client({ name: "typescript-1", version: "0" });
// Also what the client has no call to blame for.
client.onerror = (error) => { throw error; };
await client.connect(new StdioClientTransport({ command, args }));
await client.ping();
const call = (name, args, signal) => client.callTool({ name, arguments: args }, undefined, { signal });
await check({ client, call, prefix: "MCP error -32602: ", root });
