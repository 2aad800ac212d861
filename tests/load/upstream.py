"""The agent behind the proxy: it calls a tool, and streams a text about the result, one word every so often."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.concurrency import allow_many_files
from benchmarks.loopback import HEAD, chunked, listen, read_body

WORDS = 20
"""The words of a text."""
SECONDS = 0.5
"""The seconds between two of them."""


def _frame(kind: str, **members: object) -> bytes:
    return f"data: {json.dumps({'type': kind, **members})}\n\n".encode()


async def _converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    asked: dict[str, Any] = json.loads(await read_body(reader))
    ids = {"threadId": asked["threadId"], "runId": asked["runId"]}
    writer.write(HEAD + b"".join(chunked([_frame("RUN_STARTED", **ids)])))
    message_id = f"m-{ids['runId']}"
    if asked["messages"][-1]["role"] == "tool":
        writer.write(b"".join(chunked([_frame("TEXT_MESSAGE_START", messageId=message_id, role="assistant")])))
        for number in range(WORDS):
            await writer.drain()
            await asyncio.sleep(SECONDS)
            delta = _frame("TEXT_MESSAGE_CONTENT", messageId=message_id, delta=f"word {number} ")
            writer.write(b"".join(chunked([delta])))
        last = [_frame("TEXT_MESSAGE_END", messageId=message_id)]
    else:
        call = {"toolCallId": f"c-{ids['runId']}"}
        last = [_frame("TOOL_CALL_START", **call, toolCallName="look", parentMessageId=message_id)]
        last += [_frame("TOOL_CALL_ARGS", **call, delta="{}"), _frame("TOOL_CALL_END", **call)]
    writer.write(b"".join(chunked([*last, _frame("RUN_FINISHED", **ids)])) + b"0\r\n\r\n")
    await writer.drain()


if __name__ == "__main__":
    allow_many_files()
    asyncio.run(listen(_converse))
