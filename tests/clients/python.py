"""The Python client: python.py ROOT COMMAND ARGUMENT... ; `contract.json` says what is asked and answered."""

import json
import sys
from pathlib import Path

import anyio
from mcp import Client, MCPError, StdioServerParameters

root, command, *arguments = sys.argv[1:]
contract = json.loads(Path(__file__).with_name("contract.json").read_text())


def same(found, expected):
    if found != expected:
        raise AssertionError(f"{found!r} is not {expected!r}")


async def success(client, call):
    result = await client.call_tool(call["name"], call["arguments"])
    same(result.is_error, False)
    [block] = result.content
    same((block.type, json.loads(block.text)), ("text", result.structured_content))
    return result.structured_content


async def traversal(client, call):
    items, cursors = [], {}
    for number, length in enumerate(call["pages"], start=1):
        page = await success(client, {**call, "arguments": call["arguments"] | cursors})
        same(len(page["items"]), length)
        same(page["next_cursor"] is None, number == len(call["pages"]))
        items += page["items"]
        cursors = {"cursor": page["next_cursor"]}
    return items


async def main():
    async with Client(StdioServerParameters(command=command, args=arguments)) as client:
        same([tool.name for tool in (await client.list_tools()).tools], contract["tools"])

        for call in contract["calls"]:
            same(await success(client, call), call["result"])

        listing = contract["calls"][0]
        same(await traversal(client, contract["listing"]), listing["result"]["items"])
        text = "".join(chunk["text"] for chunk in await traversal(client, contract["reading"]))
        same(text.encode(), Path(root, contract["reading"]["arguments"]["path"]).read_bytes())

        refused = contract["refused"]
        result = await client.call_tool(refused["name"], refused["arguments"])
        same(result.is_error, True)
        same([(block.type, block.text) for block in result.content], [("text", refused["text"])])
        same(result.structured_content, None)
        same(result.meta["ptc-fs-mcp/error"], refused["kind"])

        unknown = contract["unknown"]
        try:
            same(await client.call_tool(unknown["name"], unknown["arguments"]), "an error")
        except MCPError as error:
            same((error.code, error.message), (unknown["code"], unknown["message"]))

        endless = contract["endless"]
        for _ in range(endless["times"]):
            async with anyio.create_task_group() as searching:

                async def search():
                    same(await client.call_tool(endless["name"], endless["arguments"]), "no result")

                async def list_beside_it():
                    # Answered beside the search, and only while not all that may be at work are searches left behind.
                    same(await success(client, listing), listing["result"])
                    searching.cancel_scope.cancel()

                # In this order they send.
                searching.start_soon(search)
                searching.start_soon(list_beside_it)
        same(await success(client, listing), listing["result"])


anyio.run(main)
