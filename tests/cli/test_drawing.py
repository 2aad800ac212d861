"""What is drawn of a run: the agent's words, and nothing that a terminal would obey."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from ag_ui.core import (
    ActivitySnapshotEvent,
    Event,
    StateSnapshotEvent,
    SubagentErrorEvent,
    SubagentStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from rich.console import Console

from agui_client._cli.live_view import DemoView
from agui_client.teams import SequentialAgent
from agui_client.terminal._lines import printable
from agui_client.terminal._live_run import LiveView
from agui_client.terminal._output import Writer
from agui_client.testing import ScriptedAgent, interrupt, turn

EVIL = "a\x1b[31m\x1b]0;t\x07\x1b[2J\x9b1m\u202eb\u2066\u061c\u200e\u200f\u2028\u200b\x00c"


def drawn(*events: Event) -> str:
    """What a run is drawn as, but for the codes that colour and place it."""
    written = io.StringIO()
    view = LiveView(Console(file=written, force_terminal=True, width=80))
    with view.running():
        for event in events:
            view.show(event, None)
    return re.sub(r"\x1b\[(\?25[lh]|[0-9;]*m|1A|2K)|[\r\n]", "", written.getvalue())


def page_event(uri: str, words: str) -> Event:
    """The event about a call whose tool has a page."""
    result = {"content": [{"type": "text", "text": words}]}
    content = {"resourceUri": uri, "serverHash": "h", "result": result, "toolInput": {}}
    return ActivitySnapshotEvent(message_id="page", activity_type="mcp-apps", content=content)


@pytest.mark.requirement("SEC-8")
@pytest.mark.parametrize("mark", [">", "> ", "- ", "> - ", "1. "])
@pytest.mark.parametrize("times", [5, 18, 19, 20, 21, 5_000])
def test_no_markup_hides_what_stands_in_it(mark: str, times: int) -> None:
    begin = TextMessageStartEvent(message_id="m", role="assistant")
    piece = TextMessageContentEvent(message_id="m", delta=f"{mark * times}deep")
    assert "deep" in drawn(begin, piece, TextMessageEndEvent(message_id="m"))


@pytest.mark.requirement("SEC-8")
@pytest.mark.parametrize(
    "events",
    [
        [TextMessageStartEvent(message_id="m", role="assistant"), TextMessageContentEvent(message_id="m", delta=EVIL)],
        [ToolCallStartEvent(tool_call_id="c", tool_call_name=EVIL)],
        [ToolCallStartEvent(tool_call_id="c", tool_call_name="f"), ToolCallArgsEvent(tool_call_id="c", delta=EVIL)],
        [ToolCallResultEvent(tool_call_id="c", message_id="t", content=EVIL)],
        [page_event(f"ui://{EVIL}", "text")],
        [page_event("ui://page", EVIL)],
    ],
)
def test_whatever_an_agent_writes_is_drawn_without_what_a_terminal_would_obey(events: list[Event]) -> None:
    ends: dict[str, Event] = {
        "m": TextMessageEndEvent(message_id="m"),
        "c": ToolCallEndEvent(tool_call_id="c"),
    }
    begun = getattr(events[0], "message_id", "c")
    shown = drawn(*events, *([ends[begun]] if begun in ends else []))
    assert "a[31m]0;t[2J1mb" in shown
    assert [each for each in shown if not each.isprintable()] == []


SHARED: list[Event] = [
    TextMessageStartEvent(message_id="same", role="assistant"),
    ToolCallStartEvent(tool_call_id="same", tool_call_name="look", parent_message_id="same"),
    TextMessageContentEvent(message_id="same", delta="I look."),
    ToolCallArgsEvent(tool_call_id="same", delta="{}"),
    ToolCallEndEvent(tool_call_id="same"),
    TextMessageEndEvent(message_id="same"),
]


def test_a_message_and_a_call_may_share_an_id() -> None:
    shown = drawn(*SHARED)
    assert "I look." in shown
    assert "tool look {}" in shown


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (None, {"n": 1}, 'the state = {"n": 1}'),
        ({"a": {"b": 1}, "c": 2}, {"a": {"b": [1]}}, "/c is gone, /a/b = [1]"),
        ({"n": 1}, {"n": "\x1b[2J"}, '/n = "\\u001b[2J"'),
        ({}, {"a": 1, "b": 2, "c": 3, "d": 4}, "/a = 1, /b = 2, 2 more"),
        ({"n": 1}, {"n": "x" * 99}, f'/n = "{"x" * 37}…'),
        ({"n": 1}, {"n": 1}, "nothing changed"),
        ([{str(number): number} for number in range(7000)], [1] * 7000, f"the state = [{'1, ' * 12}1…"),
    ],
)
def test_the_demo_says_what_an_event_changed_in_the_state(before: Any, after: Any, said: str) -> None:
    written = io.StringIO()
    view = DemoView(Console(file=written, force_terminal=True, width=120), can_ask=False)
    with view.running():
        view.show(StateSnapshotEvent(snapshot=before), before)
        view.show(StateSnapshotEvent(snapshot=after), after)
    assert f" {said} \u2500" in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", written.getvalue())


@pytest.mark.requirement("SEC-8")
def test_markdown_makes_no_control_characters_and_tells_where_a_link_leads() -> None:
    markdown = "a&#x202e;b&#27;c [click](http://there/?a=1) `code\x1b[2J`"
    shown = drawn(
        TextMessageStartEvent(message_id="m", role="assistant"),
        TextMessageContentEvent(message_id="m", delta=markdown),
        TextMessageEndEvent(message_id="m"),
    )
    assert "ab\ufffdc click (http://there/?a=1) code[2J" in shown
    assert [each for each in shown if not each.isprintable()] == []


@pytest.mark.requirement("SEC-8")
def test_prose_keeps_what_languages_are_written_with() -> None:
    kept = "Tromsø \u3042\u0645\u200c\u06cc \U0001f468\u200d\U0001f4bb a\u00a0b\tc\nd \ue0b0 \U0001fae9"
    assert printable(kept) == kept
    assert printable("a\r\nb\ufeff\u3000c\ud800") == "a\nb c"


def test_the_words_of_a_subagent_are_drawn_under_its_name() -> None:
    events: list[Event] = [
        SubagentStartedEvent(subagent_run_id="s", name="team"),
        SubagentStartedEvent(subagent_run_id="t", name="writer", parent_subagent_run_id="s"),
        TextMessageStartEvent(message_id="m", role="assistant", subagent_run_id="t"),
        TextMessageContentEvent(message_id="m", delta="Words"),
        TextMessageEndEvent(message_id="m"),
        SubagentErrorEvent(subagent_run_id="t", message="broken"),
    ]
    shown = drawn(*events)
    assert "team > writer" in shown
    assert "Words" in shown
    assert "team > writer failed: broken" in shown
    notes = io.StringIO()
    transcript = Writer(answers=None, notes=notes)
    for event in events:
        transcript.show(event, None)
    assert notes.getvalue().splitlines() == [
        "team is at work",
        "team > writer is at work",
        "team > writer: Words",
        "team > writer failed: broken",
    ]


def test_a_question_that_waits_names_the_member_of_a_team_that_asks() -> None:
    clerk = ScriptedAgent(turn(outcome=interrupt("Proceed?")), agent_id="clerk")
    result = SequentialAgent(SequentialAgent(clerk, agent_id="desk")).run_agent_sync("Hi")
    notes = io.StringIO()
    Writer(answers=None, notes=notes).close(result)
    assert ": desk > clerk: Proceed? (" in notes.getvalue()
