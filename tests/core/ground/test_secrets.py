"""A secret, in each form that the table of secrets knows, is in nothing that is written or uploaded (SEC-7, SEC-9)."""

from __future__ import annotations

import io
import json
import logging
import re
import time
import traceback
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import anyio
import pytest
from ag_ui.core import TextMessageContentEvent
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("mcp", reason="needs the MCP SDK: pip install 'agui-client[mcp]'")

from mcp import MCPError
from mcp.server.lowlevel import Server as ToolServer

from agui_client import AGUIError, EventLog, HttpAgent, ToolsetError, validate
from agui_client._core.ground.secrets import hidden_text, undecided_from
from agui_client.doctor import as_html, as_junit, diagnose
from agui_client.mcp import mcp_server
from agui_client.recording import record
from agui_client.recording._pieces import ResponseWriter
from agui_client.testing import Reply, ScriptedAgent, agui_app, serve_bytes, state, text, turn
from doctor.spoiled_server import Server
from support.telemetry import spans_in_memory

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KEY = "hunter2-Q7rTz9wLx3"
FORMS: dict[str, Any] = {
    **{name: {name: KEY} for name in ("api_key", "db_pass", "pwd", "passphrase", "bearer", "password", "Cookie")},
    "a header": {"name": "X-Api-Key", "value": KEY},
    "JSON in JSON": json.dumps({"in": [{"client_secret": KEY}]}),
    "a scheme": f"I called it with Bearer {KEY}, and it worked",
    "a provider's key": f"Incorrect key provided: sk-{KEY}",
    "an address": f"see https://ada:{KEY}@example.org/?token={KEY}",
}


def custom(value: Any) -> dict[str, Any]:
    return {"type": "CUSTOM", "name": "seen", "value": value, "unknown": 1}


def recording(value: Any, path: Path) -> str:
    file = path / "run.jsonl"
    ScriptedAgent(turn(custom(value))).use(record(file)).run_agent_sync(json.dumps(value))
    return file.read_text()


def log(value: Any, path: Path) -> str:
    written, logger = io.StringIO(), logging.getLogger("agui_client.events")
    handler, level = logging.StreamHandler(written), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        agent = ScriptedAgent(turn(custom(value)))
        agent.subscribe(EventLog())
        agent.run_agent_sync()
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    return written.getvalue()


def reports(value: Any, path: Path) -> str:
    server = Server()
    server.change = lambda events, request: [events[0], {"type": "SAID", "said": value}, custom(value), *events[1:]]
    diagnosis = anyio.run(lambda: diagnose(server.agent(), only=["hello"]))
    assert {each.rule for each in diagnosis.findings} == {"PROC-7", "PROC-8"}
    return "\n".join((str(diagnosis), diagnosis.model_dump_json(), as_html(diagnosis), as_junit(diagnosis)))


def checks(value: Any, path: Path) -> str:
    faults = validate([custom(value)])
    return "\n".join((*map(str, faults), *map(repr, faults)))


def error(value: Any, path: Path) -> str:
    refusal = json.dumps({"detail": f"refused: {json.dumps(value)}"})
    with serve_bytes(Reply([f"data: {refusal}\n\n".encode()])) as server, pytest.raises(AGUIError) as caught:
        HttpAgent(server.url).run_agent_sync("Hi")
    return f"{caught.value} {caught.value!r}"


def inspection(value: Any, path: Path) -> str:
    result = ScriptedAgent(turn(custom(value), state({"seen": value}))).use(record(path / "run.jsonl")).run_agent_sync()
    return "\n".join(result.inspect()._repr_mimebundle_().values())


def tool_server(value: Any, path: Path) -> str:
    async def refuse(ctx: object, params: object) -> Any:
        raise MCPError(-32000, f"refused: {json.dumps(value)}")

    agent = ScriptedAgent(turn(text("Hi")), tools=mcp_server(ToolServer("refusing", on_list_tools=refuse)))
    with pytest.raises(ToolsetError, match="MCPError") as caught:
        agent.run_agent_sync()
    return "".join(traceback.format_exception(caught.value))


def spans(value: Any, path: Path) -> str:
    with pytest.MonkeyPatch.context() as patch:
        exporter = spans_in_memory(patch)
        failing = turn(custom(value), {"type": "RUN_ERROR", "message": json.dumps(value)})
        url = f"http://ada:{KEY}@agent.example/run?said={quote(json.dumps(value))}#{KEY}"
        with pytest.raises(AGUIError):
            HttpAgent(url, app=agui_app(ScriptedAgent(failing))).run_agent_sync(json.dumps(value))
        return "".join(span.to_json() for span in exporter.get_finished_spans())


_NAME_ENDS = r"(?:value|content|authorization|cookie|key|token|secret|pass|password|passphrase|passwd|pwd|bearer)s?"
_UNDECIDED = re.compile(
    rf"""(?://[^\s/?#"'<>]*|{_NAME_ENDS}\s*|(?:bearer|basic)\s+[\w+/=.~-]*|(?<![a-z0-9])sk-[\w-]*)\Z""",
    re.IGNORECASE | re.ASCII,
)
"""The same as `undecided_from` in one pattern, which looks at the rest of the text from each place."""
_WORDS = (
    "value",
    "Key",
    "bearer",
    "basic",
    "sk-",
    "//",
    "/",
    "-",
    "a",
    " ",
    "\n",
    ":",
    "@",
    "?",
    "1",
    "s",
    ".",
    '"',
    "_",
)


@given(st.lists(st.sampled_from(_WORDS), max_size=8).map("".join))
def test_a_text_behind_which_a_secret_may_come_is_found_from_its_end(text: str) -> None:
    begin, expected = undecided_from(text), _UNDECIDED.search(text)
    assert (begin is None) == (expected is None)


_PIECES = (
    "value ",
    "//a",
    "sk-",
    "-sk-a.",
    " sk-",
    "key ",
    "bearer ",
    "password=x ",
    "\\u0041",
    "value\\n",
    "://a@",
    "\\",
)
"""Pieces of texts that a reader may look at again and again."""
_MADE_OF: tuple[Callable[[str, int], str], ...] = (
    lambda piece, n: piece * n,
    lambda piece, n: json.dumps({"name": "password", "value": [piece] * n}),
    lambda piece, n: json.dumps([["password", piece]] * n),
    lambda piece, n: '{"name":"password","value":' * 150 + json.dumps([piece] * n) + "}" * 150,
    lambda piece, n: '{"name":"password",' + ",".join(['"value":' + json.dumps(piece)] * n) + "}",
)
"""Texts that are made of some pieces."""


def _in_pieces(piece: str, n: int) -> None:
    writer = ResponseWriter()
    line = json.dumps({"event": {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": piece}})
    event = TextMessageContentEvent(message_id="m", delta=piece)
    for entries in (*(writer.add(line, event) for _ in range(n)), writer.finish()):
        for each in entries:
            each.redacted(None)


@pytest.mark.soak
@pytest.mark.parametrize("piece", _PIECES)
def test_a_text_that_is_four_times_as_long_is_redacted_in_four_times_the_time(piece: str) -> None:
    def seconds(work: Callable[[int], object], n: int) -> float:
        began = time.thread_time()
        work(n)
        return time.thread_time() - began

    def read(make: Callable[[str, int], str]) -> Callable[[int], object]:
        return lambda n: hidden_text(make(piece, 4 * n))

    works: list[Callable[[int], object]] = [lambda n: _in_pieces(piece, n), *map(read, _MADE_OF)]
    for work in works:
        seconds(work, 100)
        assert seconds(work, 4_000) <= 8 * seconds(work, 1_000) + 0.1


OUTLETS = (recording, log, reports, checks, error, inspection, tool_server, spans)


@pytest.mark.requirement("SEC-7", "SEC-9")
@pytest.mark.parametrize("outlet", OUTLETS)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_secret_is_in_no_outlet(form: Any, outlet: Callable[[Any, Path], str], tmp_path: Path) -> None:
    assert KEY not in outlet(form, tmp_path)
