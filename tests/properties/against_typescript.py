"""The same streams for the official TypeScript client: `python tests/properties/against_typescript.py --streams 6750`.

Two of three streams are legal, in the third one thing is spoiled. Each client reads every stream; the program counts
those on which verdict, events, messages and state agree, and the others by the reasons in `_reasons`. A difference for
which there is none there is printed with its seed, and the program ends with status 1.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isinf
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

_TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_TESTS), str(_TESTS.parent)]

from agui_client import AGUIError, RunFailedError  # noqa: E402 - found by the lines above
from agui_client._protocol.schema import is_array, is_object  # noqa: E402
from support.typescript import installed  # noqa: E402
from weaves import RUN_ID, as_json, encoded, spoil, weave  # noqa: E402
from weaves.memory import Server, framed  # noqa: E402

Json: TypeAlias = dict[str, Any]

_READER = Path(__file__).with_name("against_typescript.mjs")
_MINTED = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}-[0-9a-f-]{27}")
_SECONDS = 900.0
_CHUNKED_RESULT = "a result ends the chunks of its call here, so the END comes before it (CHUNK-10)"


@dataclass(frozen=True)
class Reading:
    """What one client made of a stream."""

    error: str | None
    """Why it was rejected; None if it was not."""
    rule: str | None
    """The rule that it broke; None for the other client, which names none."""
    has_run_error: bool
    """Whether RUN_ERROR was delivered."""
    events: list[Json]
    """What was delivered."""
    messages: list[Json]
    """What was there afterwards."""
    state: Any
    """What was there afterwards."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--streams", type=int, default=6750, help="how many streams")
    parser.add_argument("--seed", type=int, default=1, help="of the first stream; the others count on")
    options = parser.parse_args()
    logging.getLogger("agui_client").disabled = True
    streams = [_stream(seed) for seed in range(options.seed, options.seed + options.streams)]
    theirs = _read_there(streams)
    ours = asyncio.run(_read_all(streams))
    counts: Counter[str] = Counter()
    unexplained = 0
    for seed, frames, here, there in zip(range(options.seed, sys.maxsize), streams, ours, theirs, strict=False):
        reasons = _reasons(frames, here, there)
        counts["; ".join(sorted(reasons)) or "agree"] += 1
        if any(reason.isupper() for reason in reasons):
            unexplained += 1
            sys.stdout.write(f"seed {seed}: {reasons}; ours: {here.error}; theirs: {there.error}\n")
    for what, count in counts.most_common():
        sys.stdout.write(f"{count:6} {what}\n")
    return int(unexplained > 0)


def _stream(seed: int) -> list[str]:
    random = Random(seed)
    events = weave(random).events
    return spoil(random, events).frames if seed % 3 == 0 else [encoded(event) for event in events]


def _read_there(streams: Sequence[Sequence[str]]) -> list[Reading]:
    with tempfile.TemporaryDirectory(dir=installed(), prefix="run-") as folder:
        program, given = Path(folder, _READER.name), Path(folder, "streams.jsonl")
        program.write_text(_READER.read_text("utf-8"), "utf-8")
        given.write_text("\n".join(map(json.dumps, streams)), "utf-8")
        command = ["node", str(program), str(given)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=True)
    # By line feeds alone: texts of streams have other characters at which Python splits lines.
    read = map(json.loads, done.stdout.rstrip("\n").split("\n"))
    return [
        Reading(each["error"], None, each["hasRunError"], each["events"], each["messages"], each.get("state"))
        for each in read
    ]


async def _read_all(streams: Iterable[Sequence[str]]) -> list[Reading]:
    return [await _read_here(frames) for frames in streams]


async def _read_here(frames: Sequence[str]) -> Reading:
    agent, error = Server([framed(frames)], waits=False).agent(), None
    events: list[Json] = []
    try:
        async with agent.stream(run_id=RUN_ID) as run:
            async for event in run:
                events += [as_json(event)]
    except RunFailedError:
        pass
    except AGUIError as raised:
        error = raised
    has_run_error = any(event["type"] == "RUN_ERROR" for event in events)
    messages = [as_json(message) for message in agent.messages]
    rule = getattr(error, "rule", None)
    return Reading(None if error is None else str(error), rule, has_run_error, events, messages, agent.state)


# --- the differences that there are, and why


def _reasons(frames: Sequence[str], ours: Reading, theirs: Reading) -> set[str]:
    """Return the reasons for which two readings differ; one in capitals is not explained."""
    if theirs.error == "circular":
        return {"a patch copies a value into itself, which is then one object there"}
    if theirs.error is not None and "does not match the reasoning message" in theirs.error:
        return {"a reasoning span and its message have different owners, which is refused there"}
    if (ours.error is None) != (theirs.error is None):
        return {_verdicts(frames, ours)}
    found: set[str] = set()
    if _plain(ours.messages) != _plain(theirs.messages):
        found.add(_of_messages(frames, ours, theirs))
    if _plain(ours.state) != _plain(theirs.state):
        has_root = '"path": ""' in "".join(frames)
        found.add("a patch removes or replaces the whole document" if has_root else "STATE")
    if _plain(ours.events) != _plain(theirs.events):
        found.add(_of_events(_spoken(ours), _spoken(theirs), is_rejected=ours.error is not None))
    return found


def _verdicts(frames: Sequence[str], ours: Reading) -> str:
    if ours.rule == "TRUNC-1":
        return "a stream that is cut off is a success there (TRUNC-1)"
    if ours.rule == "PROC-6":
        return "an outcome without a type is taken there (PROC-6)"
    if ours.rule == "PROC-12":
        return "half a character is taken there (PROC-12)"
    if ours.rule == "STREAM-1" and any("_CHUNK" in frame for frame in frames):
        return "an explicit event ends the chunks of its item here, and not there (CHUNK-10)"
    if "" in frames:
        return "an empty frame is refused there (SSE-5)"
    if any('"type": ""' in frame for frame in frames):
        return "an empty type is refused there, and unknown here"
    return "an unknown subtype is refused there (PROC-18)" if "subtype" in "".join(frames) else "VERDICT"


def _of_messages(frames: Sequence[str], ours: Reading, theirs: Reading) -> str:
    answered: set[str] = set()
    results: Counter[str] = Counter()
    for event in _objects(frames):
        kind, call = event.get("type"), str(event.get("toolCallId"))
        if kind in ("TOOL_CALL_START", "TOOL_CALL_CHUNK") and call in answered:
            return "a call begins again after its result, and is another call here (TOOL-4)"
        if kind == "TOOL_CALL_RESULT":
            answered.add(call)
            results[call] += 1
        if kind == "MESSAGES_SNAPSHOT" and is_array(told := event.get("messages")):
            calls = [str(each.get("toolCallId")) for each in told if is_object(each)]
            answered.update(calls)
            results.update(calls)
    if any(count > 1 for count in results.values()):
        return "a result comes again, and stands once here (TOOL-5)"
    if _without_activities(ours.messages) == _without_activities(theirs.messages):
        return "a patch removes or replaces the whole document"
    if _with_text(ours.messages) == _with_text(theirs.messages):
        return "a chunk with an empty delta is a content event there"
    return "MESSAGES" if ours.error is None else "other messages before a rejection"


def _of_events(ours: list[Json], theirs: list[Json], *, is_rejected: bool) -> str:
    if ours == theirs:
        return "a chunk with an empty delta is a content event there"
    if sorted(map(_text, ours)) == sorted(map(_text, theirs)):
        return _CHUNKED_RESULT
    surplus = Counter(map(_text, ours)) - Counter(map(_text, theirs))
    if (
        surplus
        and all('"type": "TOOL_CALL_' in each for each in surplus)
        and len(ours) - len(theirs) == surplus.total()
    ):
        return _CHUNKED_RESULT
    return "other events before a rejection" if is_rejected else "EVENTS"


def _objects(frames: Sequence[str]) -> list[Json]:
    found: list[Any] = []
    for frame in frames:
        try:
            found.append(json.loads(frame))
        except (ValueError, RecursionError):
            continue
    return [each for each in found if is_object(each)]


def _plain(value: Any) -> Any:
    """The value without what each client spells in its own way: minted ids, defaults, times of chunks."""
    if is_object(value):
        plain = {name: _plain(each) for name, each in value.items() if name != "rawEvent"}
        members: Json = {name: each for name, each in plain.items() if each is not None}
        if members.get("metadata") == {}:
            del members["metadata"]
        if isinstance(kind := members.get("type"), str) and kind.isupper():
            members.pop("timestamp", None)
        if is_object(echoed := members.get("input")):
            members["input"] = {name: each for name, each in echoed.items() if each != []}
        return members
    if is_array(value):
        return [_plain(each) for each in value]
    if isinstance(value, str) and _MINTED.fullmatch(value):
        return "minted"
    if isinstance(value, float) and isinf(value):
        return None  # as the program of the other client writes it
    return int(value) if isinstance(value, float) and abs(value) < 1e15 and value.is_integer() else value


def _spoken(reading: Reading) -> list[Json]:
    """The events apart from those that add an empty text."""
    events: list[Json] = _plain(reading.events)
    return [each for each in events if each.get("delta") != "" or not each["type"].endswith(("_CONTENT", "_ARGS"))]


def _text(event: Json) -> str:
    return json.dumps(event, sort_keys=True)


def _with_text(messages: list[Json]) -> list[Json]:
    plain: list[Json] = _plain(messages)
    return [{name: value for name, value in each.items() if value != ""} for each in plain]


def _without_activities(messages: list[Json]) -> list[Json]:
    plain: list[Json] = _plain(messages)
    return [each for each in plain if each["role"] != "activity"]


if __name__ == "__main__":
    sys.exit(main())
