// What holds for every client in this language; `contract.json` says what is asked and answered.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

const contract = JSON.parse(readFileSync(new URL("contract.json", import.meta.url), "utf8"));

// `call(name, arguments, signal)` is the client's own call of a tool; `prefix` what it puts before an error's message.
export async function check({ client, call, prefix, root }) {
  const { tools } = await client.listTools();
  assert.deepEqual(tools.map((tool) => tool.name), contract.tools);

  for (const { name, arguments: args, result } of contract.calls) {
    assert.deepEqual(await success(name, args), result);
  }

  const [list] = contract.calls;
  assert.deepEqual(await traversal(contract.listing), list.result.items);
  const chunks = await traversal(contract.reading);
  const file = readFileSync(`${root}/${contract.reading.arguments.path}`);
  assert.ok(Buffer.from(chunks.map((chunk) => chunk.text).join("")).equals(file));

  const { refused, unknown, endless } = contract;
  const refusal = await call(refused.name, refused.arguments);
  assert.equal(refusal.isError, true);
  assert.deepEqual(refusal.content, [{ type: "text", text: refused.text }]);
  assert.equal(refusal.structuredContent, undefined);
  assert.equal(refusal._meta["ptc-fs-mcp/error"], refused.kind);

  const { code, message } = unknown;
  await assert.rejects(call(unknown.name, unknown.arguments), { code, message: prefix + message });

  for (let time = 0; time < endless.times; time++) {
    const abort = new AbortController();
    const search = call(endless.name, endless.arguments, abort.signal);
    // Answered beside the search, and only while not all that may be at work are searches left behind.
    assert.deepEqual(await success(list.name, list.arguments), list.result);
    abort.abort("no longer wanted");
    await assert.rejects(search, /no longer wanted/);
  }
  assert.deepEqual(await success(list.name, list.arguments), list.result);

  await client.close();

  async function success(name, args) {
    const result = await call(name, args);
    assert.equal(result.isError, false, JSON.stringify(result));
    const [block, ...others] = result.content;
    assert.deepEqual([block.type, JSON.parse(block.text), others], ["text", result.structuredContent, []]);
    return result.structuredContent;
  }

  async function traversal({ name, arguments: args, pages }) {
    const items = [];
    let cursor;
    for (const [page, length] of pages.entries()) {
      const result = await success(name, { ...args, cursor });
      assert.equal(result.items.length, length);
      assert.equal(result.next_cursor === null, page === pages.length - 1);
      items.push(...result.items);
      cursor = result.next_cursor;
    }
    return items;
  }
}
