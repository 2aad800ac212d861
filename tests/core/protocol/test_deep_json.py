"""JSON and schemas from elsewhere are followed no further than leaves room for what is collected meanwhile to end."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from ag_ui.core import Interrupt, StateSnapshotEvent

from agui_client import AGUIError, answer_model, validate
from agui_client._core.ground.json_reading import DEEPEST_READ, load_json
from agui_client._core.ground.secrets import hidden_text
from agui_client._core.protocol.decode import Decoder
from agui_client._core.protocol.patch import parse_json
from agui_client._core.protocol.warnings import WarningLog
from agui_client._core.tools.json_schema import schema_problems
from agui_client._rendering.form_readers import read_json as read_typed
from agui_client._rendering.story import read_json as read_shown
from agui_client._serving.served_request import RequestRefusedError
from agui_client.asgi._request_body import input_of
from agui_client.recording import Recording
from agui_client.testing import ScriptedAgent, text, turn

DEEP = '{"a":[' * 50_000


def _parse_reply(reply: str) -> None:
    ScriptedAgent(turn(text(reply))).run_agent_sync("Hi").parse(dict[str, int])


def _read_body() -> None:
    # A large body is read while nothing is collected.
    body = b'{"threadId": "\\ud83d", "state": ' + DEEP[:10_000].encode()
    with suppress(RequestRefusedError):
        anyio.run(partial(input_of, body, max_bytes=10**7))


def _lists(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def _emit_deep_state() -> None:
    ScriptedAgent(turn(StateSnapshotEvent(snapshot=_lists(20_000)))).run_agent_sync("Hi")


def _make_model(schema: dict[str, Any]) -> None:
    answer_model(Interrupt(id="i", reason="ask", response_schema=schema))


def _schema_of(keyword: str, levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array"}
    for _ in range(levels):
        schema = {"type": "array", keyword: schema}
    return schema


TREE = {"anyOf": [{"type": "array", "items": {"$ref": "#"}}, {"type": "string"}]}
CHAIN = {f"a{number}": {"$ref": f"#/$defs/a{number + 1}"} for number in range(5_000)}
READERS: dict[str, Callable[[], object]] = {
    "an event": lambda: Decoder(WarningLog()).feed(f'{{"type": "NEW", "half": "\\ud83d", "value": {DEEP}'),
    "lines of events": lambda: validate(f'{{"type": "NEW"}}\n{DEEP}\n'.encode()),
    "an event of an agent in this process": _emit_deep_state,
    "a reply in prose": lambda: _parse_reply(f"Here it is: {DEEP} Enjoy."),
    "a text with a secret": lambda: hidden_text(f'{{"api_key": "x", "value": {DEEP}'),
    "a text with values one behind the other": lambda: hidden_text(f'["api_key"] {DEEP}'),
    "the body of a request": _read_body,
    "arguments that are shown": lambda: read_shown(DEEP),
    "a typed value": lambda: read_typed(DEEP),
    "a line of a document": lambda: parse_json(DEEP),
    "a schema that is itself": lambda: schema_problems({"$ref": "#"}, 1),
    "a schema that is itself by others": lambda: schema_problems({"anyOf": [{"allOf": [{"$ref": "#"}]}]}, 1),
    "a model of a tree": lambda: _make_model({"type": "object", "properties": {"a": {"$ref": "#"}}}),
    "a schema of many levels": lambda: schema_problems(_schema_of("not", 190), 1),
    "a model of many levels": lambda: _make_model({"type": "object", "properties": {"a": _schema_of("items", 190)}}),
    "a value by a schema of a tree": lambda: schema_problems(TREE, _lists(150)),
    "a schema of many references": lambda: schema_problems({"$ref": "#/$defs/a0", "$defs": CHAIN}, 1),
}


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Let each collection call 40 functions, one in the other, as what is collected may; list those that fail."""
    lost: list[Any] = []

    def end(phase: str, info: Any, levels: int = 40) -> None:
        if levels:
            end(phase, info, levels - 1)

    monkeypatch.setattr(sys, "unraisablehook", lost.append)
    usual = gc.get_threshold()
    gc.callbacks.append(end)
    gc.set_threshold(20, 1000, 1000)
    yield lost
    gc.set_threshold(*usual)
    gc.callbacks.remove(end)


@pytest.mark.parametrize("read", READERS.values(), ids=list(READERS))
def test_what_is_collected_while_something_is_read_that_nests_too_deeply_can_end(
    read: Callable[[], object], lost: list[Any]
) -> None:
    with suppress(AGUIError, ValueError):
        read()
    assert not lost


def test_a_recording_that_nests_too_deeply_is_refused_for_that(tmp_path: Path, lost: list[Any]) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(f'{{"kind":"event","event":{DEEP}\n{{}}\n', "utf-8")
    with pytest.raises(AGUIError, match="line 1: it is nested too deeply"):
        Recording.read(path)
    assert not lost


@pytest.mark.parametrize("inmost", ["[]", "{}", '"[[[\\"[["', "1e5"])
@pytest.mark.parametrize("beginning", ["", '"\\ud83d",', '"[\\\\",', '"\\"[[[",', '{"]": "{"},'])
def test_json_of_as_many_levels_as_are_read_is_what_python_reads(inmost: str, beginning: str) -> None:
    levels = DEEPEST_READ - 2
    deepest = f"[{beginning}" + "[" * levels + inmost + "]" * levels + "]"
    assert load_json(deepest) == json.loads(deepest)
    assert load_json(deepest, parse_float=str) == json.loads(deepest, parse_float=str)
    deeper = f"[{beginning}" + '[{"a":' * 126 + inmost + "}]" * 126 + "]"
    with pytest.raises(RecursionError, match="deeper than 250 levels"):
        load_json(deeper)


def test_where_many_brackets_are_no_levels_they_are_read() -> None:
    wide = [[{"a": "[" * 1000}] for _ in range(1000)]
    for given in (wide, [*wide, "\ud83d"]):
        assert load_json(json.dumps(given)) == given
        assert load_json(json.dumps(given).encode(), parse_float=str) == given


@pytest.mark.parametrize("cut", ['"' + '\\"' * 200_000, '"[[' * 150_000, "[" * 251 + '"\\', '"' + "[" * 10**6])
def test_a_text_without_its_end_is_looked_at_once(cut: str) -> None:
    with pytest.raises((ValueError, RecursionError)):
        load_json("[" * 251 + "]" * 251 + cut)
    with pytest.raises((ValueError, RecursionError)):
        load_json(f"[{cut}")
