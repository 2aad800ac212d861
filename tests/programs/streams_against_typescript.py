"""The same streams for the official TypeScript client.

`python tests/programs/streams_against_typescript.py --streams 6750`. Two of three streams are legal, in the third one
thing is spoiled. Each client reads every stream; the program counts those on which verdict, events, messages and state
agree, and the others by the reasons in `_VERDICTS` and `_reasons`. A difference for which there is none there is
printed with its seed, and the program ends with status 1. So it does where an excuse in `_VERDICTS` is not needed any
more for the stream that shows it.

The other client reads what `agent_app` sends for `--teams` random teams and `--served` legal streams behind it, too,
and has to accept all but what `_REFUSED_THERE` names; and what servers send for `--killed` random teams, whose members
pay, ask and fail, before they are killed and when they go on. These are judged by themselves, too, and so is each in
this program: `--seed 1 --streams 0 --teams 0 --served 0 --killed 5000` takes about 40 minutes of CPU, and each slice of
its seeds can be run alone.
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
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import isinf
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

_TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_TESTS), str(_TESTS.parent)]

import anyio  # noqa: E402 - found by the lines above
import pytest  # noqa: E402

from agui_client import AGUIError, HttpAgent, RunFailedError  # noqa: E402
from agui_client._core.protocol.schema import is_array, is_object  # noqa: E402
from agui_client.asgi import agent_app  # noqa: E402
from support.random_recovery import PLACES, invalid, recovered  # noqa: E402
from support.random_teams import closed, random_team, run_to_the_end  # noqa: E402
from support.typescript import installed  # noqa: E402
from weaves import RUN_ID, THREAD_ID, as_json, encoded, spoil, weave  # noqa: E402
from weaves.memory import Server, framed  # noqa: E402

Json: TypeAlias = dict[str, Any]

_READER = Path(__file__).with_name("streams_against_typescript.mjs")
_MINTED = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}-[0-9a-f-]{27}")
_HALVES = re.compile("[\ud800-\udfff]")
_SECONDS = 900.0
_BATCH = 50
"""The teams that are killed before the other client reads their streams, in one process of node."""


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


@dataclass(frozen=True)
class _Exchange:
    """One request, and the data of the events of its answer."""

    frames: Sequence[str]
    input: Json = field(default_factory=lambda: {"threadId": THREAD_ID, "runId": RUN_ID, "messages": []})


class _Kept:
    """An app whose requests and answers are kept as they went over the wire."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.exchanges: list[_Exchange] = []

    def agent(self, **options: Any) -> HttpAgent:
        """Return an agent that asks the app."""
        return HttpAgent("http://app.test/", app=self, **options)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request as the app does."""
        asked, answered = bytearray(), bytearray()

        async def received() -> Any:
            message = await receive()
            asked.extend(message.get("body", b""))
            return message

        async def sent(message: Any) -> None:
            answered.extend(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, received, sent)
        finally:
            if answered and scope["path"] == "/":  # and no thread that is sent again
                self._keep(bytes(asked), bytes(answered))

    def _keep(self, asked: bytes, answered: bytes) -> None:
        blocks = answered.decode().split("\n\n")
        frames = [each.partition("data: ")[2] for each in blocks if "data: " in each]
        self.exchanges.append(_Exchange(frames, json.loads(asked)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--streams", type=int, default=6750, help="how many streams")
    parser.add_argument("--seed", type=int, default=1, help="of the first stream; the others count on")
    parser.add_argument("--teams", type=int, default=160, help="how many served teams")
    parser.add_argument("--served", type=int, default=600, help="how many served streams")
    parser.add_argument("--killed", type=int, default=100, help="how many teams whose programs are killed")
    options = parser.parse_args()
    logging.disable()
    seeds = range(options.seed, options.seed + options.streams)
    is_well = _has_needed_excuses()
    is_well &= _agree(seeds, [_stream(seed) for seed in seeds])
    is_well &= _accepts("team", asyncio.run(_of_teams(options.seed, options.teams)))
    is_well &= _accepts("served stream", asyncio.run(_of_served(options.seed, options.served)))
    for first in range(options.seed, options.seed + options.killed, _BATCH):
        is_well &= _keep_promises(first, min(_BATCH, options.seed + options.killed - first))
    return int(not is_well)


def _keep_promises(first: int, count: int) -> bool:
    """Report on teams that fail and are killed, in each place; return whether they keep what they promise."""
    exchanges, kills, findings = list[tuple[int, _Exchange]](), 0, list[str]()

    def around(app: Any) -> _Kept:
        """Keep what a server sends."""
        servers.append(_Kept(app))
        return servers[-1]

    for seed in range(first, first + count):
        for place in PLACES:
            servers, streams = list[_Kept](), list[Any]()
            world = asyncio.run(recovered(seed, place, streams=streams, around=around))
            kills += world.kills
            found = world.findings + [each for events in streams for each in invalid(events)]
            findings += [f"team {seed} {place}: {each}\n" for each in found]
            exchanges += [(seed, each) for kept in servers for each in kept.exchanges if each.frames]
    sys.stdout.writelines(findings)
    sys.stdout.write(f"{count:6} teams from seed {first} on, in each place, with {kills} kills\n")
    sys.stdout.flush()
    return _accepts("killed team", exchanges) and not findings


def _agree(seeds: Sequence[int], streams: Sequence[Sequence[str]]) -> bool:
    """Report on streams that both clients read; return whether each difference has a reason."""
    theirs = _read_there([_Exchange(frames) for frames in streams])
    ours = asyncio.run(_read_all(streams))
    counts: Counter[str] = Counter()
    unexplained = 0
    for seed, frames, here, there in zip(seeds, streams, ours, theirs, strict=True):
        reasons = _reasons(frames, here, there)
        counts["; ".join(sorted(reasons)) or "agree"] += 1
        if any(reason.isupper() for reason in reasons):
            unexplained += 1
            sys.stdout.write(f"seed {seed}: {reasons}; ours: {here.error}; theirs: {there.error}\n")
    for what, count in counts.most_common():
        sys.stdout.write(f"{count:6} {what}\n")
    return not unexplained


def _has_needed_excuses() -> bool:
    """Return whether each excuse is the reason that is found for the stream that shows it."""
    shown = [each.stream for each in _VERDICTS]
    readings = zip(
        _VERDICTS, asyncio.run(_read_all(shown)), _read_there([_Exchange(each) for each in shown]), strict=True
    )
    needless = [each.why for each, ours, theirs in readings if _reasons(each.stream, ours, theirs) != {each.why}]
    for why in needless:
        sys.stdout.write(f"not needed for its stream: {why}\n")
    return not needless


def _accepts(what: str, exchanges: Sequence[tuple[int, _Exchange]]) -> bool:
    """Report on answers of served agents; return whether the other client accepts each of them."""
    read = _read_there([exchange for _, exchange in exchanges])
    refused = [
        (seed, each.error)
        for (seed, _), each in zip(exchanges, read, strict=True)
        if each.error is not None and _refused_there(each) is None
    ]
    failed = [
        seed
        for (seed, exchange), each in zip(exchanges, read, strict=True)
        if each.has_run_error and json.loads(exchange.frames[-1])["type"] != "RUN_ERROR"
    ]
    for seed, error in refused:
        sys.stdout.write(f"{what} {seed}: theirs: {error}\n")
    sys.stdout.write(f"{len(exchanges) - len(refused):6} answers of {what}s are accepted\n")
    return not refused and not failed


async def _of_teams(first: int, count: int) -> list[tuple[int, _Exchange]]:
    """Return the answers of random teams that are served, with their seeds."""
    found: list[tuple[int, _Exchange]] = []
    for seed in range(first, first + count):
        made = random_team(Random(seed), may_hang=seed % 3 == 0, timeout=0.05)
        kept = _Kept(agent_app(made.agent, secret="s" * 32))
        with anyio.fail_after(60):
            await run_to_the_end(made, kept.agent(agent_id="team", thread_id="t"))
            await closed(made)
        found += [(seed, each) for each in kept.exchanges]
    return found


async def _of_served(first: int, count: int) -> list[tuple[int, _Exchange]]:
    """Return the answers of a served agent whose upstream sends legal streams, with their seeds."""
    found: list[tuple[int, _Exchange]] = []
    for seed in range(first, first + count):
        frames = [encoded(event) for event in weave(Random(seed)).events]
        kept = _Kept(agent_app(Server([framed(frames)], waits=False).agent()))
        with suppress(AGUIError):
            await kept.agent().run_agent("Hi")
        found += [(seed, each) for each in kept.exchanges]
    return found


def _stream(seed: int) -> list[str]:
    random = Random(seed)
    events = weave(random).events
    return spoil(random, events).frames if seed % 3 == 0 else [encoded(event) for event in events]


def _read_there(exchanges: Sequence[_Exchange]) -> list[Reading]:
    if not exchanges:
        return []
    with tempfile.TemporaryDirectory(dir=installed(), prefix="run-") as folder:
        program, given = Path(folder, _READER.name), Path(folder, "streams.jsonl")
        program.write_text(_READER.read_text("utf-8"), "utf-8")
        lines = [json.dumps({"frames": [*each.frames], "input": each.input}) for each in exchanges]
        given.write_text("\n".join(lines), "utf-8")
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


_REFUSED_THERE = {
    r"circular": "a patch copies a value into itself, which is then one object there",
    r".* does not match the reasoning message .*": (
        "a reasoning span and its message have different owners, which is refused there"
    ),
}
"""What the other client says of legal streams, and why."""


def _refused_there(theirs: Reading) -> str | None:
    found = [why for pattern, why in _REFUSED_THERE.items() if re.fullmatch(pattern, theirs.error or "")]
    return found[0] if found else None


def _reasons(frames: Sequence[str], ours: Reading, theirs: Reading) -> set[str]:
    """Return the reasons for which two readings differ; one in capitals is not explained."""
    if (why := _refused_there(theirs)) is not None:
        return {why}
    if (ours.error is None) != (theirs.error is None):
        return {next((each.why for each in _VERDICTS if each.holds(frames, ours, theirs)), "VERDICT")}
    found: set[str] = set()
    whole = replace(
        theirs, **{each: _with_whole_characters(getattr(theirs, each)) for each in ("events", "messages", "state")}
    )
    if whole != theirs:
        found.add("half of a character is U+FFFD here (PROC-12)")
    theirs = whole
    if _plain(ours.messages) != _plain(theirs.messages):
        found |= _of_messages(frames, ours, theirs)
    if _plain(ours.state) != _plain(theirs.state):
        has_root = '"path": ""' in "".join(frames)
        found.add("a patch removes or replaces the whole document" if has_root else "STATE")
    if _plain(ours.events) != _plain(theirs.events):
        found.add(_of_events(_spoken(ours), _spoken(theirs), is_rejected=ours.error is not None))
    return found


@dataclass(frozen=True)
class _Excuse:
    """A verdict in which the clients differ."""

    why: str
    """The reason."""
    holds: Callable[[Sequence[str], Reading, Reading], bool]
    """Whether it is the reason for two readings of a stream."""
    stream: Sequence[str]
    """The shortest stream that shows it."""


_STARTED = json.dumps({"type": "RUN_STARTED", "threadId": "thread-1", "runId": "run-1"})
_FINISHED = json.dumps({"type": "RUN_FINISHED", "threadId": "thread-1", "runId": "run-1"})


def _nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def _is_cut_off(_frames: Sequence[str], ours: Reading, _theirs: Reading) -> bool:
    return ours.rule == "TRUNC-1" and not any(each["type"] == "RUN_FINISHED" for each in ours.events[-1:])


def _refuses(words: str, *, beside: str = "") -> Callable[[Sequence[str], Reading, Reading], bool]:
    """Return whether our client refuses a stream that has a text in some words, and the other one takes it."""
    return lambda frames, ours, theirs: (
        theirs.error is None and beside in "".join(frames) and re.search(words, str(ours.error)) is not None
    )


def _has_an_empty_frame(frames: Sequence[str], ours: Reading, theirs: Reading) -> bool:
    return ours.error is None and theirs.error is not None and "" in frames


def _has_an_empty_type(frames: Sequence[str], ours: Reading, theirs: Reading) -> bool:
    return ours.error is None and theirs.error is not None and any(each.get("type") == "" for each in _objects(frames))


def _has_an_unknown_role(frames: Sequence[str], ours: Reading, theirs: Reading) -> bool:
    roles = {each["role"] for each in _objects(frames) if isinstance(each.get("role"), str)}
    known = {"developer", "system", "assistant", "user", "reasoning"}
    return ours.error is None and not roles <= known and '"role"' in str(theirs.error)


def _has_an_unknown_subtype(frames: Sequence[str], ours: Reading, theirs: Reading) -> bool:
    values = [each for each in _objects(frames) if each.get("type") == "REASONING_ENCRYPTED_VALUE"]
    is_unknown = any(each.get("subtype") not in ("message", "tool-call") for each in values)
    return ours.error is None and is_unknown and "subtype" in str(theirs.error)


_VERDICTS = (
    _Excuse("a stream that is cut off is a success there (TRUNC-1)", _is_cut_off, [_STARTED]),
    _Excuse(
        "an outcome without a type is taken there (PROC-6)",
        _refuses(r"/outcome should have a string as its type"),
        [_STARTED, _FINISHED.replace("}", ', "outcome": {}}')],
    ),
    _Excuse(
        "a part of a content without a type is taken there (PROC-6)",
        _refuses(r"/content/\d+ should have a string as its type"),
        [
            _STARTED,
            json.dumps({"type": "TOOL_CALL_RESULT", "messageId": "t", "toolCallId": "c", "content": [{"text": "x"}]}),
            _FINISHED,
        ],
    ),
    _Excuse(
        "a message without a role is taken there (PROC-6)",
        _refuses(r"/messages/\d+ should have a string as its role"),
        [_STARTED, json.dumps({"type": "MESSAGES_SNAPSHOT", "messages": [{"id": "m", "content": "x"}]}), _FINISHED],
    ),
    _Excuse(
        "an operation of a patch without an op is taken there (SNAP-3)",
        _refuses(r"/(patch|delta)/\d+ should have a string as its op"),
        [_STARTED, json.dumps({"type": "STATE_DELTA", "delta": [{"path": "/a", "value": 1}]}), _FINISHED],
    ),
    _Excuse(
        "a number that no float can hold is taken there",
        _refuses(r"a number in it is out of range|value has \d+ digits"),
        [_STARTED, '{"type": "STATE_SNAPSHOT", "snapshot": 1e400}', _FINISHED],
    ),
    _Excuse(
        "what nests deeper than any event should is taken there",
        _refuses(r"nests deeper than any event should"),
        [_STARTED, json.dumps({"type": "CUSTOM", "name": "deep", "value": _nested(700)}), _FINISHED],
    ),
    _Excuse(
        "an explicit event ends the chunks of its item in another lane here (CHUNK-10)",
        _refuses(r"the producer continued \S+ \S+ '\w+' that is closed", beside="_CHUNK"),
        [
            _STARTED,
            json.dumps({"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "subagentRunId": "s", "delta": "a"}),
            json.dumps({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "b"}),
            json.dumps({"type": "RUN_ERROR", "message": "lost"}),
        ],
    ),
    _Excuse("an empty frame is refused there (SSE-5)", _has_an_empty_frame, [_STARTED, "", _FINISHED]),
    _Excuse(
        "an empty type is refused there, and unknown here",
        _has_an_empty_type,
        [_STARTED, json.dumps({"type": ""}), _FINISHED],
    ),
    _Excuse(
        "an unknown role of a text is refused there, and left out here (PROC-18)",
        _has_an_unknown_role,
        [
            _STARTED,
            json.dumps({"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "narrator"}),
            json.dumps({"type": "TEXT_MESSAGE_END", "messageId": "m"}),
            _FINISHED,
        ],
    ),
    _Excuse(
        "an unknown subtype is refused there (PROC-18)",
        _has_an_unknown_subtype,
        [
            _STARTED,
            json.dumps(
                {"type": "REASONING_ENCRYPTED_VALUE", "subtype": "new", "entityId": "m", "encryptedValue": "secret"}
            ),
            _FINISHED,
        ],
    ),
)


def _of_messages(frames: Sequence[str], ours: Reading, theirs: Reading) -> set[str]:
    """Return the reasons without which, taken together, the messages would differ."""
    begun, repeated = _repeated_calls(frames)
    patches = [each for each in _objects(frames) if each.get("type") == "ACTIVITY_DELTA"]
    documents = {str(each.get("messageId")) for each in patches if '"path": ""' in json.dumps(each)}
    moved = {str(each.get("messageId")) for each in patches if _moves_into_itself(each.get("patch"))}
    parents = {str(each.get("parentMessageId")) for each in _objects(frames) if each.get("toolCallId") in begun}
    reopened = _reopened_calls(frames, ours, theirs)
    steps: list[tuple[str, bool, Callable[[list[Json]], list[Json]]]] = [
        ("a result comes again, and stands once here (TOOL-5)", True, lambda each: _without_calls(each, repeated)),
        (
            "a call begins again after its result, and is another call here (TOOL-4)",
            bool(begun),
            lambda each: _without(_without_calls(each, begun), parents),
        ),
        (
            "a patch removes or replaces the whole document",
            bool(documents),
            lambda each: _without(each, documents),
        ),
        (
            "a patch moves a value into itself, which RFC 6902 forbids, and does so there",
            bool(moved),
            lambda each: _without(each, moved),
        ),
        (
            "a call begins again, and has one of its names, and anew what was whole, here (TOOL-4)",
            bool(reopened),
            lambda each: _without_words(each, reopened),
        ),
        ("a chunk with an empty delta is a content event there", True, _with_text),
    ]
    for count in range(1, len(steps) + 1):
        for chosen in combinations(steps, count):
            one, other = ours.messages, theirs.messages
            for _, _, left in chosen:
                one, other = left(_plain(one)), left(_plain(other))
            if all(is_there for _, is_there, _ in chosen) and one == other:
                return {why for why, _, _ in chosen}
    return {"MESSAGES" if ours.error is None else "other messages before a rejection"}


def _moves_into_itself(patch: object) -> bool:
    moves = [each for each in patch if is_object(each) and each.get("op") == "move"] if is_array(patch) else []
    return any(str(each.get("path")).startswith(f"{each.get('from')}/") for each in moves)


def _without(messages: list[Json], ids: set[str]) -> list[Json]:
    return [each for each in messages if each["id"] not in ids]


def _repeated_calls(frames: Sequence[str]) -> tuple[set[str], set[str]]:
    """Return the ids of the calls that begin again after their result, and of those with several results.

    A call that a run does not name among those that it leaves pending has its result.
    """
    begun, results = set[str](), Counter[str]()
    started, answered = set[str](), set[str]()
    for event in _objects(frames):
        kind, call = event.get("type"), str(event.get("toolCallId"))
        if kind in ("TOOL_CALL_START", "TOOL_CALL_CHUNK") and (call in results or call in answered):
            begun.add(call)
        if kind in ("TOOL_CALL_START", "TOOL_CALL_CHUNK"):
            started.add(call)
        if kind == "RUN_FINISHED" and is_object(outcome := event.get("outcome")):
            pending = outcome.get("pendingToolCallIds")
            answered |= started - {*pending} if is_array(pending) and pending else set()
        if kind == "TOOL_CALL_RESULT":
            results[call] += 1
        if kind == "MESSAGES_SNAPSHOT" and is_array(told := event.get("messages")):
            results.update(str(each["toolCallId"]) for each in told if is_object(each) and "toolCallId" in each)
    return begun, {call for call, count in results.items() if count > 1}


def _reopened_calls(frames: Sequence[str], ours: Reading, theirs: Reading) -> set[str]:
    """Return the ids of the calls without a result that began again, and of which the readings say what they may.

    Which of two names a call has is unspecified. Arguments that were whole are replaced here, and appended to there.
    """
    here, there = _functions_in(ours.messages), _functions_in(theirs.messages)
    names: dict[str, list[str]] = {}
    for event in _objects(frames):
        if event.get("type") in ("TOOL_CALL_START", "TOOL_CALL_CHUNK") and "toolCallName" in event:
            names.setdefault(str(event.get("toolCallId")), []).append(str(event["toolCallName"]))
    return {
        call
        for call in here.keys() & there.keys()
        if len(names.get(call, [])) > 1
        and here[call]["name"] in names[call]
        and _replaces(here[call]["arguments"], there[call]["arguments"])
    }


def _functions_in(messages: Iterable[Json]) -> dict[str, Json]:
    """Return the functions of the calls, by the ids of these."""
    found: dict[str, Json] = {}
    for message in messages:
        calls: list[Json] = message.get("toolCalls") or []
        found.update((call["id"], call["function"]) for call in calls)
    return found


def _replaces(ours: str, theirs: str) -> bool:
    """Return whether arguments are those of the other client, or their end behind a whole object."""
    if ours == theirs:
        return True
    with suppress(ValueError):
        return theirs.endswith(ours) and is_object(json.loads(theirs.removesuffix(ours)))
    return False


def _without_words(messages: list[Json], calls: set[str]) -> list[Json]:
    """Return the messages without the names and arguments of some calls."""
    found: list[Json] = []
    for message in _plain(messages):
        made: list[Json] = message.get("toolCalls") or []
        made = [{**call, "function": None} if call["id"] in calls else call for call in made]
        found.append({**message, "toolCalls": made})
    return found


def _with_whole_characters(value: Any) -> Any:
    """Return a value with U+FFFD for each half of a character."""
    if is_object(value):
        return {_with_whole_characters(name): _with_whole_characters(each) for name, each in value.items()}
    if is_array(value):
        return [_with_whole_characters(each) for each in value]
    return _HALVES.sub("\ufffd", value) if isinstance(value, str) else value


def _without_calls(messages: list[Json], calls: set[str]) -> list[Json]:
    """The messages without some calls and their results; one that has no more than such calls is left out, too."""
    found: list[Json] = []
    for message in _plain(messages):
        if message["role"] == "tool" and message["toolCallId"] in calls:
            continue
        made: list[Json] = message.get("toolCalls") or []
        left = [each for each in made if each["id"] not in calls]
        if made and not left and not message.get("content"):
            continue
        found.append({**message, "toolCalls": left})
    return found


def _of_events(ours: list[Json], theirs: list[Json], *, is_rejected: bool) -> str:
    if ours == theirs:
        return "a chunk with an empty delta is a content event there"
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


def _with_text(messages: list[Json]) -> list[Json]:
    plain: list[Json] = _plain(messages)
    return [{name: value for name, value in each.items() if value != ""} for each in plain]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except pytest.skip.Exception as nothing:
        sys.exit(str(nothing))
