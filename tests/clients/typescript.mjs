// The TypeScript client: typescript.mjs (pin|auto) ROOT COMMAND ARGUMENT...
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { check } from "./checks.mjs";

const [era, root, command, ...args] = process.argv.slice(2);
const mode = { pin: { pin: "2026-07-28" }, auto: "auto" }[era];
const client = new Client({ name: "typescript", version: "0" }, { versionNegotiation: { mode } });
// Also what the client has no call to blame for.
client.onerror = (error) => { throw error; };
await client.connect(new StdioClientTransport({ command, args }));
const call = (name, args, signal) => client.callTool({ name, arguments: args }, { signal });
await check({ client, call, prefix: "", root });
