"""The fast paths: each is taken by the input that it is for, and other input does not take it.

That both ways come to the same is tested beside them, such as in `tests/core/protocol/test_feed.py`.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from ag_ui.core import (
    CustomEvent,
    MessagesSnapshotEvent,
    RunAgentInput,
    RunStartedEvent,
    SubagentStartedEvent,
    TextMessageChunkEvent,
    TextMessageContentEvent,
    TextMessageStartEvent,
    UserMessage,
)

from agui_client import HookContext, Reducer, Subscriber, tool
from agui_client._core.ground.secrets import hidden_line
from agui_client._core.ground.sent_secrets import SentSecrets
from agui_client._core.protocol.decode import Decoder
from agui_client._core.protocol.expand import Expander
from agui_client._core.protocol.json_difference import difference
from agui_client._core.protocol.pipeline import Pipeline
from agui_client._core.protocol.request import prepare_input
from agui_client._core.protocol.shared_messages import SharedMessages
from agui_client._core.protocol.validation import Validator
from agui_client._core.protocol.warnings import WarningLog
from agui_client._core.transport.numbered import NumberedFramer
from agui_client._core.transport.run_end import RunEnd
from agui_client._core.transport.sse import Framer
from agui_client._core.verbs.one_run import MergedRun
from agui_client._core.verbs.sse import frame_of
from agui_client.recording import record
from agui_client.recording._format import AgentRecord
from agui_client.recording._pieces import ResponseWriter
from agui_client.testing import ScriptedAgent, text, turn
from support.bodies import memory_agent


class FastPath(NamedTuple):
    """A fast path, and the input that takes it."""

    slow: str
    """The function, method or pattern of the package that the slow way alone uses."""
    make: Callable[[], Callable[[Any], object]]
    """Returns the function that takes the input."""
    usual: Any
    """The input that the fast path is for."""
    other: Any
    """Input that goes the slow way."""


STARTED = RunStartedEvent(thread_id="t", run_id="r")
DELTA = TextMessageContentEvent(message_id="m", delta="x")
OWNED = TextMessageContentEvent(message_id="m", delta="x", subagent_run_id="s")
INPUT = RunAgentInput(thread_id="t", run_id="r", messages=[UserMessage(id="u", content="Hi")], state={}, tools=[])
TOKEN, ANOTHER = [("authorization", "Bearer abc123def456")], [("authorization", "Bearer fed654cba321")]
BODY = (
    b'data: {"type":"RUN_STARTED","threadId":"thread-1","runId":"r"}\n\n'
    b'data: {"type":"RUN_FINISHED","threadId":"thread-1","runId":"r"}\n\n'
)


def delta_with(members: str) -> str:
    """Return the JSON of a delta with further members."""
    return f'{{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"x"{members}}}'


def numbered() -> Callable[[bytes], object]:
    """Return what splits a stream whose beginning was split: that may have a mark."""
    framer = NumberedFramer(1000, drops_known=False)
    framer.feed(b": hello\n\n")
    return framer.feed


def sending() -> Callable[[list[tuple[str, str]]], object]:
    """Return what takes the secrets of a request behind one with the first token."""
    secrets = SentSecrets()
    secrets.add_request("http://agent.test/", TOKEN)
    return lambda headers: secrets.add_request("http://agent.test/", headers)


def decoding() -> Callable[[list[str]], object]:
    """Return what decodes frames."""
    decoder = Decoder(WarningLog())
    return lambda frames: list(decoder.feed_all(frames))


def repeating() -> Callable[[str], object]:
    """Return what decodes a frame behind a plain delta."""
    decoder = Decoder(WarningLog())
    decoder.feed(delta_with(""))
    return decoder.feed


def piping(*before: Any) -> Callable[[Any], object]:
    """Return what takes the next event of a run from a source that conforms."""
    pipeline = Pipeline(Reducer(), WarningLog())
    pipeline.verifier.begin("t", "r")
    pipeline.is_conforming = True
    for each in (STARTED, *before):
        assert list(pipeline.feed(each)) == [each]
    return lambda event: list(pipeline.feed(event))


def admitting() -> Callable[[Any], object]:
    """Return what admits the next event of a run before hooks see it."""
    pipeline = Pipeline(Reducer(), WarningLog())
    pipeline.verifier.begin("t", "r")
    assert list(pipeline.admitted(STARTED)) == [STARTED]
    return lambda event: list(pipeline.admitted(event))


def chunking() -> Callable[[Any], object]:
    """Return what expands a chunk behind the first of its lane."""
    expander = Expander(WarningLog())
    expander.feed(TextMessageChunkEvent(message_id="m", delta="x"))
    return expander.feed


def asking(headers: dict[str, str]) -> None:
    """Ask an agent over HTTP."""
    asyncio.run(memory_agent(BODY, headers=headers).run_agent("Hi", run_id="r"))


def looking(look_at: Callable[[list[Any]], object]) -> None:
    """Look at the messages that an agent in this process gets."""
    look_at(SharedMessages(INPUT.messages))


def comparing(values: tuple[object, object]) -> None:
    """Compare a state with an earlier one."""
    difference(*values)


def recording() -> Callable[[str], object]:
    """Return what writes the line of a delta."""
    return lambda line: [each.redacted(None) for each in ResponseWriter().add(line, DELTA, bare=delta_with(""))]


def recording_on() -> Callable[[str], object]:
    """Return what writes a piece behind another one of its text."""
    folder = TemporaryDirectory()
    recorder = record(Path(folder.name) / "run.jsonl")
    key = recorder.begin_request(recorder.new_call(), INPUT, agent=AgentRecord(agent_id="a"))
    recorder.write_event(key, DELTA)

    def write(delta: str) -> None:
        """Write the piece, and end the recording."""
        recorder.write_event(key, TextMessageContentEvent(message_id="m", delta=delta))
        recorder.close()
        folder.cleanup()

    return write


def running(**options: Any) -> Callable[[dict[str, Any]], object]:
    """Return what runs an agent with further options."""

    def run(given: dict[str, Any]) -> None:
        agent = ScriptedAgent(turn(text("Yes.")), **options, **given.get("options", {}))
        for subscriber in given.get("subscribers", ()):
            agent.subscribe(subscriber)
        if "save" in given:
            agent.save_with(given["save"])
        asyncio.run(agent.run_agent("Hi"))

    return run


@tool
async def look() -> str:
    """Look."""
    return "seen"


async def save(checkpoint: object) -> None:
    """Save nothing."""


class OfCustomEvents(Subscriber):
    """Has a hook for events that do not come."""

    def on_custom_event(self, event: CustomEvent, context: HookContext) -> None:
        """See nothing."""


class OfTexts(Subscriber):
    """Has a hook for each piece of text."""

    def on_text_message_content_event(self, event: TextMessageContentEvent, context: HookContext) -> None:
        """See a piece."""


PATHS: dict[str, FastPath] = {
    "a read of whole frames": FastPath(
        "_core.transport.sse:Framer._split",
        lambda: Framer(1000).feed,
        b'data: {"a": 1}\n\ndata: {}\n\n',
        b": comment\n\ndata: {}\n\n",
    ),
    "frames with ids": FastPath(
        "_core.transport.numbered:NumberedFramer._any",
        numbered,
        b"id: 1\ndata: {}\n\nid: 2\ndata: {}\n\n",
        b"id: 1\nevent: x\ndata: {}\n\n",
    ),
    "frames that begin and end no run": FastPath(
        "_core.transport.run_end:object_in",
        lambda: RunEnd("r").end_with,
        [delta_with("")],
        ['{"type":"RUN_STARTED","threadId":"t","runId":"r"}'],
    ),
    "an answer to a request without secrets": FastPath(
        "_core.transport.http_source:HttpSource._without_secrets",
        lambda: asking,
        {"accept-language": "de"},
        dict(TOKEN),
    ),
    "a request like the one before": FastPath(
        "_core.ground.sent_secrets:secrets_sent", sending, [*TOKEN, ("accept", "*/*")], ANOTHER
    ),
    "a request that can have no secret": FastPath(
        "_core.ground.sent_secrets:secrets_sent", sending, [("user-agent", "python")], [("x-key", "12345678")]
    ),
    "a line without a hint of a secret": FastPath(
        "_core.ground.secrets:_Reader", lambda: hidden_line, '{"word":"a"}', '{"password":"a"}'
    ),
    "a delta like the one before": FastPath(
        "_core.protocol.decode:_validate",
        repeating,
        delta_with("").replace("x", "null é"),
        delta_with(',"timestamp":1'),
    ),
    "an event of an official class": FastPath(
        "_core.protocol.decode:_conforms",
        lambda: Decoder(WarningLog()).feed,
        delta_with(""),
        delta_with(',"metadata":{"a":1}'),
    ),
    "an event with metadata": FastPath(
        "_core.protocol.decode:Decoder._unrecognized",
        lambda: Decoder(WarningLog()).feed,
        delta_with(',"metadata":{"a":1}'),
        delta_with(',"unknown":1'),
    ),
    "digits that are no large number": FastPath(
        "_core.protocol.decode:_HUGE",
        lambda: Decoder(WarningLog()).feed,
        delta_with(',"metadata":{"id":"span-0123456789e12","n":1e12}'),
        delta_with(',"metadata":{"n":1e123}'),
    ),
    "frames without half a character": FastPath(
        "_core.protocol.decode:Decoder.with_unpaired",
        decoding,
        [delta_with(',"metadata":{"a":"\\u00fc"}')],
        [delta_with(',"metadata":{"a":"\\ud83d\\ude00"}')],
    ),
    "a typed delta": FastPath(
        "_core.protocol.validation:_is_flat",
        lambda: Validator(WarningLog()).feed,
        DELTA,
        TextMessageStartEvent(message_id="m"),
    ),
    "a decoded delta that middleware has passed on": FastPath(
        "_core.protocol.validation:_is_flat",
        lambda: Validator(WarningLog()).feed,
        Decoder(WarningLog()).feed(delta_with("")),
        Decoder(WarningLog()).feed(delta_with(',"timestamp":1')),
    ),
    "a typed event without objects of the protocol": FastPath(
        "_core.protocol.validation:Validator._validate_model",
        lambda: Validator(WarningLog()).feed,
        CustomEvent(name="n", value={"a": 1}),
        MessagesSnapshotEvent(messages=[]),
    ),
    "a typed event of texts": FastPath(
        "_core.protocol.validation:_can_be_written",
        lambda: Validator(WarningLog()).feed,
        STARTED,
        CustomEvent(name="n", value={"a": 1}),
    ),
    "an event that leaves as it came": FastPath(
        "_core.protocol.pipeline:Pipeline._expanded",
        piping,
        TextMessageStartEvent(message_id="m"),
        TextMessageChunkEvent(message_id="m", delta="x"),
    ),
    "an event that leaves as one to hooks": FastPath(
        "_core.protocol.pipeline:Pipeline._verified",
        admitting,
        TextMessageStartEvent(message_id="m"),
        TextMessageChunkEvent(message_id="m", delta="x"),
    ),
    "a delta without a tag": FastPath(
        "_core.protocol.open_items:ItemTable.agree",
        lambda: piping(
            SubagentStartedEvent(subagent_run_id="s", name="scout"),
            TextMessageStartEvent(message_id="m", subagent_run_id="s"),
        ),
        DELTA,
        OWNED,
    ),
    "a chunk that continues its lane": FastPath(
        "_core.protocol.expand:Expander._expand",
        chunking,
        TextMessageChunkEvent(delta="y"),
        TextMessageChunkEvent(delta="y", metadata={"a": 1}),
    ),
    "an input that conforms": FastPath(
        "_core.protocol.request:_stripped",
        lambda: partial(prepare_input, warnings=WarningLog(), is_copied=False),
        INPUT,
        INPUT.model_copy(update={"messages": [{"id": "u", "role": "user", "content": "Hi"}]}),
    ),
    "messages that an agent does not look at": FastPath(
        "_core.protocol.shared_messages:_copied",
        lambda: looking,
        len,
        list,
    ),
    "values of a state that stayed": FastPath(
        "_core.protocol.json_difference:is_same_json",
        lambda: comparing,
        ({"a": 1, "b": [2]}, {"a": 1, "b": [2]}),
        ({"a": 1, "b": [2]}, {"a": 2, "b": [2]}),
    ),
    "a delta in a response": FastPath("_core.verbs.sse:_encode", lambda: frame_of, DELTA, STARTED),
    "a delta of one of several runs": FastPath("_core.verbs.one_run:_with", lambda: MergedRun().feed, DELTA, OWNED),
    "a delta in a recording": FastPath(
        "recording._pieces:hidden_line", recording, '{"event":{"delta":"x"}}', '{"event":{"delta":"Bearer abc123def"}}'
    ),
    "a piece of a text that goes on in a recording": FastPath(
        "recording._pieces:PendingEvent", recording_on, " word", " password"
    ),
    "an event without hooks": FastPath(
        "_core.run.hooks:HookCalls.deliver", running, {"subscribers": [OfCustomEvents()]}, {"subscribers": [OfTexts()]}
    ),
    "a turn that nobody saves": FastPath("_core.run.saving:checkpoint_of", running, {}, {"save": save}),
    "a run that leaves nothing to anybody": FastPath(
        "_core.run.between_runs:pending_calls", running, {}, {"options": {"tools": [look]}}
    ),
}


def watch(slow: str, calls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Note each use of what the slow way uses."""
    module, _, name = slow.partition(":")
    *classes, name = name.split(".")
    owner: Any = importlib.import_module(f"agui_client.{module}")
    for each in classes:
        owner = getattr(owner, each)
    found: Any = getattr(owner, name)
    search: Any = getattr(found, "search", None)  # of a pattern

    def used(*args: Any, **options: Any) -> Any:
        """Note it, and do it."""
        calls.append(slow)
        return (search or found)(*args, **options)

    monkeypatch.setattr(owner, name, SimpleNamespace(search=used) if search else used)


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_a_fast_path_is_taken_by_the_input_that_it_is_for(path: FastPath, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    watch(path.slow, calls, monkeypatch)
    usual, other = path.make(), path.make()
    calls.clear()
    usual(path.usual)
    assert calls == []
    other(path.other)
    assert path.slow in calls
