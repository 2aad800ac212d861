"""The agent behind the proxy: it calls a tool, and streams a text about the result, one word every so often.

The text has `LOAD_WORDS` words, and lasts `LOAD_SECONDS` seconds.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from programs.benchmarks.concurrency import allow_many_files
from programs.benchmarks.loopback import HEAD, chunked, listen, read_body

_WORDS = int(os.environ["LOAD_WORDS"])
_PAUSE = float(os.environ["LOAD_SECONDS"]) / _WORDS


def _frame(kind: str, **members: object) -> bytes:
    return f"data: {json.dumps({'type': kind, **members})}\n\n".encode()


async def _converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    asked: dict[str, Any] = json.loads(await read_body(reader))
    ids = {"threadId": asked["threadId"], "runId": asked["runId"]}
    writer.write(HEAD + b"".join(chunked([_frame("RUN_STARTED", **ids)])))
    message_id = f"m-{ids['runId']}"
    if asked["messages"][-1]["role"] == "tool":
        writer.write(b"".join(chunked([_frame("TEXT_MESSAGE_START", messageId=message_id, role="assistant")])))
        # As bytes, as this program shares the processors with the one that is measured.
        before, after = _frame("TEXT_MESSAGE_CONTENT", messageId=message_id, delta="word @ ").split(b"@")
        for number in range(_WORDS):
            await writer.drain()  # which fails if the proxy has left
            await asyncio.sleep(_PAUSE)
            delta = b"%b%03d%b" % (before, number, after)
            writer.write(b"%x\r\n%b\r\n" % (len(delta), delta))
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
