"""Faults that a scripted server has on demand: below `/fault/NAME`, it is the same server with that fault in turn 2.

Some are the model's, and reach it by a context variable; the others spoil what the adapter sends.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from contextvars import ContextVar
from typing import Any

SECRET = "PIN-4711"
"""What is leaked."""
_FAULT: ContextVar[str] = ContextVar("fault", default="")
_HANGS = 60.0
_SLOW = 12.0
_EVERY = 5
_PREFIX = "/fault/"
_said: Counter[str] = Counter()


class ModelCrashedError(Exception):
    """A model that breaks down in the middle of a conversation."""


async def spoiled(pieces: list[Any], turn: int, prompt: str, results: list[str]) -> list[Any]:
    """Return what the model says, with the fault of the address that was asked.

    Args:
        pieces: What it would say.
        turn: The number of the prompt, from 1.
        prompt: The prompt, behind which a framework may put the state.
        results: The results that came since.
    """
    if turn != 2 or not (fault := _FAULT.get()):
        return pieces
    calls = [each for each in pieces if hasattr(each, "arguments")]
    match fault:
        case "crash":
            raise ModelCrashedError("the model is gone")
        case "hang" | "slow" if not results:
            await asyncio.sleep(_HANGS if fault == "hang" else _SLOW)
        case "arguments" if "buy" in prompt and calls:
            calls[0].arguments = {"count": "three"}
        case "denial" if "buy" in prompt and len(results) == 1:
            return [_call("buy_tickets", {"count": 3})]
        case "order" if "both" in prompt and calls:
            return calls[::-1]
        case "thought" if "think" in prompt:
            pieces[0].text = f"The customer has {SECRET}. "
        case "state" if "move" in prompt and calls:
            calls[0].arguments = {"city": SECRET}
        case "wrong" if "hello" in prompt:
            _said[fault] += 1
            return pieces if _said[fault] % _EVERY else ["Answer ", "seven."]
    return pieces


def _call(name: str, arguments: dict[str, Any]) -> Any:
    """Return a call; the class is the script's, which imports this module."""
    import script

    return script.Call(name, arguments)


def planted(app: Any) -> Any:
    """Return an app that answers below `/fault/NAME` with a fault, and else as the given one.

    Args:
        app: The app.
    """

    async def faulty(scope: Any, receive: Any, send: Any) -> None:
        path = scope.get("path", "")
        if not path.startswith(_PREFIX):
            await app(scope, receive, send)
            return
        fault, _, path = path.removeprefix(_PREFIX).partition("/")
        _FAULT.set(fault)
        scope = {**scope, "path": f"/{path}", "raw_path": f"/{path}".encode()}
        if fault in _WIRE:
            message, body = {"more_body": True}, b""
            while message.get("more_body"):
                message = await receive()
                body += message.get("body", b"")
            asked = json.loads(body or "{}").get("messages") or []
            turn = sum(each.get("role") == "user" for each in asked)
            receive, send = _read_again(body, receive), _spoiling(fault, turn, send)
            scope["headers"] = [each for each in scope["headers"] if each[0] != b"accept-encoding"]
        await app(scope, receive, send)

    return faulty


def _read_again(body: bytes, receive: Any) -> Any:
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Any:
        return messages.pop() if messages else await receive()

    return again


def _spoiling(fault: str, turn: int, send: Any) -> Any:
    """Return a function that sends events one by one, spoiled."""
    left = bytearray()

    async def spoil(message: Any) -> None:
        if message["type"] != "http.response.body":
            headers = [each for each in message.get("headers", ()) if each[0].lower() != b"content-length"]
            await send({**message, "headers": headers})
            return
        left.extend(message.get("body", b""))
        whole, mark, rest = bytes(left).rpartition(b"\n\n")
        left[:] = rest
        frames = [each + mark for each in whole.split(b"\n\n")] if mark else []
        done = b"".join(_WIRE[fault](frame, turn) for frame in frames)
        if not message.get("more_body"):
            done += bytes(left)
        await send({**message, "body": done})

    return spoil


def _with_one_id(frame: bytes, turn: int) -> bytes:
    """Give every text of the agent one id."""
    return re.sub(rb'("messageId": ?)"[^"]*"', rb'\1"answer"', frame) if b'"TEXT_MESSAGE_' in frame else frame


def _with_a_patch(frame: bytes, turn: int) -> bytes:
    """Send a change of what the state has not before the end of the second turn."""
    if turn != 2 or b'"RUN_FINISHED"' not in frame:
        return frame
    delta = {"type": "STATE_DELTA", "delta": [{"op": "replace", "path": "/no/such/place", "value": 1}]}
    return f"data: {json.dumps(delta)}\n\n".encode() + frame


_WIRE = {"ids": _with_one_id, "patch": _with_a_patch}
