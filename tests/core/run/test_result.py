"""What a run came to: the fields of a result, and reading it as a type of one's own."""

from __future__ import annotations

import dataclasses
import json
import logging
import re
from collections.abc import AsyncIterator
from types import GenericAlias
from typing import Any

import pytest
from ag_ui.core import (
    CustomEvent,
    MessagesSnapshotEvent,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    TokenUsage,
    UserMessage,
)
from pydantic import BaseModel, Field

from agui_client import IncompleteRunError, ParseError, RunFailedError, RunResult, ToolContext, UsageError, tool
from agui_client._core.run.reply_parsing import read_reply, written_replies
from agui_client.testing import ScriptedAgent, Step, reasoning, state, text, tool_call, tool_result, turn
from agui_client.types import Timings
from support import scenario
from support.verbs import shown


def result_of(*steps: Step, **ending: Any) -> RunResult:
    return ScriptedAgent(turn(*steps, **ending)).run_agent_sync(scenario.PROMPT)


def test_a_run_that_only_begins_and_ends_has_little_to_show() -> None:
    result = result_of()
    assert (result.text, result.result, result.state) == ("", None, {})
    assert result.outcome == RunFinishedSuccessOutcome()
    assert (result.interrupts, result.pending_tool_calls, result.new_messages) == ([], [], [])
    assert (result.usage, result.warnings, result.response, result.aborted) == ([], [], None, False)
    assert result.messages == [scenario.PROMPT]


def test_text_is_the_last_assistant_message_the_run_wrote() -> None:
    assert result_of(text("One"), text("Two"), tool_call("look"), tool_result("seen")).text == "Two"
    assert result_of(text("One"), reasoning("Hm.")).text == "One"
    assert result_of(text("One"), text("")).text == "One"
    assert result_of(text("One"), text("for the user", role="user")).text == "One"
    assert result_of(reasoning("Hm.")).text == ""


def test_a_text_that_a_snapshot_repeats_is_not_the_runs() -> None:
    async def repeat(input: RunAgentInput) -> AsyncIterator[Step]:
        yield turn(MessagesSnapshotEvent(messages=input.messages)) if len(input.messages) > 1 else turn(text("One"))

    agent = ScriptedAgent(repeat)
    assert [agent.run_agent_sync("Hi").text for _ in range(2)] == ["One", ""]


def test_text_of_a_subagent_is_not_the_runs() -> None:
    subagent: list[Step] = [
        TextMessageStartEvent(message_id="s", role="assistant", subagent_run_id="sub-1"),
        TextMessageContentEvent(message_id="s", delta="Inner"),
        TextMessageEndEvent(message_id="s"),
    ]
    assert result_of(text("Outer"), *subagent).text == "Outer"


def test_text_of_an_earlier_run_is_not_this_runs() -> None:
    agent = ScriptedAgent(turn(text("One")), turn())
    assert agent.run_agent_sync("Hi").text == "One"
    assert agent.run_agent_sync("Hi").text == ""


def test_of_several_runs_in_one_stream_the_last_one_counts() -> None:
    replayed = turn(text("Old"), tool_call("old"), result="old", run_id="run-0")
    result = ScriptedAgent([replayed, turn()]).run_agent_sync()
    assert (result.text, result.result, result.pending_tool_calls) == ("", None, [])
    assert [message.content for message in result.new_messages] == ["Old", None]
    result = ScriptedAgent([replayed, turn(text("New"), tool_call("new"))]).run_agent_sync()
    assert (result.text, [call.function.name for call in result.pending_tool_calls]) == ("New", ["new"])


def test_new_messages_are_those_that_were_not_there_when_the_run_began() -> None:
    agent = ScriptedAgent(turn(text("One")), initial_messages=[UserMessage(id="u0", content="Before")])
    result = agent.run_agent_sync(scenario.PROMPT)
    assert [message.content for message in result.new_messages] == ["One"]
    assert [message.content for message in result.messages] == ["Before", scenario.PROMPT.content, "One"]


@pytest.mark.parametrize("value", [0, "", False, [], {"a": None}, "done"], ids=repr)
def test_any_json_is_a_result(value: Any) -> None:
    assert result_of(result=value).result == value


def test_a_result_cannot_be_changed_and_stays_as_it_is() -> None:
    agent = ScriptedAgent(
        turn(text("One", message_id="m"), state({"n": 1})), turn(text(" two", message_id="m"), state(2))
    )
    first = agent.run_agent_sync(scenario.PROMPT)
    agent.run_agent_sync()
    assert first.text == "One"
    assert shown(first.messages)[1:] == [{"id": "m", "role": "assistant", "content": "One"}]
    assert first.state == {"n": 1}
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.text = "other"  # type: ignore[misc]


@pytest.mark.requirement("USAGE-3")
def test_usage_is_the_last_runs_own() -> None:
    usage = [TokenUsage(model="m", input_tokens=1)]
    replayed = turn(usage=[TokenUsage(model="m", input_tokens=100)], run_id="run-0")
    agent = ScriptedAgent(
        [replayed, turn(usage=usage)], [replayed, turn()], [replayed, turn(RunErrorEvent(message="x", usage=usage))]
    )
    assert agent.run_agent_sync().usage == usage
    assert agent.run_agent_sync().usage == []
    with pytest.raises(RunFailedError) as caught:
        agent.run_agent_sync()
    assert caught.value.partial is not None
    assert caught.value.partial.usage == usage


def test_timings_of_an_agent_in_this_process_have_no_connection() -> None:
    timings = result_of(text("One")).timings
    assert timings.connect is None
    assert timings.first_event is not None
    assert timings.first_text is not None
    assert timings.total is not None
    assert 0 <= timings.first_event <= timings.first_text <= timings.total
    assert result_of().timings.first_text is None
    assert Timings() == Timings(None, None, None, None)


# --- reading it


class Place(BaseModel):
    name: str
    days: list[int] = []


@dataclasses.dataclass
class Point:
    x: int


def test_a_result_is_read_from_what_the_run_finished_with() -> None:
    place = result_of(text("some text"), result={"name": "Oslo", "days": [1]}).parse(Place)
    assert place == Place(name="Oslo", days=[1])


def test_without_one_the_final_text_is_read_as_json() -> None:
    assert result_of(text("Let me see."), text('{"name": "Oslo"}')).parse(Place) == Place(name="Oslo")


def test_a_false_result_is_a_result() -> None:
    assert result_of(text("7"), result=0).parse(int) == 0
    assert result_of(text("7")).parse(int) == 7


def test_any_type_pydantic_knows_can_be_read() -> None:
    assert result_of(result={"x": 1}).parse(Point) == Point(1)
    assert result_of(text('["a"]')).parse(list[str]) == ["a"]


def test_json_in_a_code_fence_is_read() -> None:
    said = 'Here it is:\n```json\n{"name": "Oslo"}\n```\nand an example of code:\n```python\nx = 1\n```'
    assert result_of(text(said)).parse(Place) == Place(name="Oslo")


def test_an_output_tool_with_which_the_agent_ends_the_run_is_the_answer() -> None:
    output = [tool_call("final_result", {"name": "Oslo"}), tool_result("Final result processed.")]
    assert result_of(text("Let me see."), *output).parse(Place) == Place(name="Oslo")
    assert result_of(*output, reasoning("Done.")).parse(Place) == Place(name="Oslo")
    wrapped = result_of(tool_call("final_result", {"response": [1, 2]}), tool_result("Final result processed."))
    assert wrapped.parse(list[int]) == [1, 2]
    assert wrapped.parse(dict[str, list[int]]) == {"response": [1, 2]}


def test_an_output_tool_that_repeats_the_id_of_an_earlier_call_is_the_answer() -> None:
    def output(name: str) -> Step:
        return turn(tool_call("final_result", {"name": name}, tool_call_id="again"), tool_result("Final result."))

    agent = ScriptedAgent(output("Oslo"), output("Rome"), turn())
    assert [agent.run_agent_sync("Hi").parse(Place).name for _ in range(2)] == ["Oslo", "Rome"]
    with pytest.raises(ParseError, match="there is no Place"):
        agent.run_agent_sync("Hi").parse(Place)


def test_any_other_tool_call_is_no_answer() -> None:
    looked = [tool_call("look_up", {"name": "Oslo"}), tool_result("found")]
    for result in (result_of(*looked, text("It is there.")), result_of(tool_call("look_up", {"name": "Oslo"}))):
        with pytest.raises(ParseError):
            result.parse(Place)

    @tool
    def look_up(name: str) -> str:
        return "found"

    agent = ScriptedAgent(turn(tool_call("look_up", {"name": "Oslo"})), turn(), tools=[look_up])
    with pytest.raises(ParseError, match="there is no Place: the run has no result, no text, and no call"):
        agent.run_agent_sync("Hi").parse(Place)


def test_an_output_tool_with_arguments_that_are_no_json_is_no_answer() -> None:
    broken = result_of(tool_call("final_result", '{"name": "Os'), tool_result("Final result processed."))
    with pytest.raises(ParseError, match=r"the answer is no list\[int\]: Invalid JSON: EOF while parsing"):
        broken.parse(list[int])


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            "no JSON",
            "the answer is no Place: Invalid JSON: expected ident at line 1 column 2; this arrived: 'no JSON'",
        ),
        ('{"place": 1}', "the answer is no Place: name: Field required; this arrived: '{\"place\": 1}'"),
        ("x" * 1000, f"; this arrived: '{'x' * 300}…'"),
        ("```json\n{\n```", "Invalid JSON: EOF while parsing an object at line 2 column 0; this arrived: '{\\n'"),
        ("", "there is no Place: the run has no result, no text, and no call of an output tool"),
    ],
)
def test_what_does_not_fit_is_an_error_that_quotes_what_arrived(said: str, why: str) -> None:
    result = result_of(text(said))
    with pytest.raises(ParseError) as error:
        result.parse(Place)
    assert str(error.value).endswith(why)
    assert (error.value.run_id, error.value.partial) == (result.run_id, result)


def test_a_result_is_json_without_secrets() -> None:
    hidden = reasoning("Hm.", encrypted_value="opaque-secret")
    result = result_of(hidden, text("Hello"), state({"n": 1}), result={"a": None}, usage=[TokenUsage(model="m")])
    written = json.loads(result.to_json())
    assert set(written) == {each.name for each in dataclasses.fields(result)}
    assert (written["text"], written["state"], written["result"]) == ("Hello", {"n": 1}, {"a": None})
    assert written["outcome"]["type"] == "success"
    assert written["new_messages"][1] == {"id": result.new_messages[1].id, "role": "assistant", "content": "Hello"}
    assert "opaque-secret" not in result.to_json()
    assert json.loads(result.to_json(indent=2)) == written
    assert "\n  " in result.to_json(indent=2)


class Progress(BaseModel):
    done: int = Field(alias="doneSteps")


@pytest.mark.requirement("PASS-2")
def test_a_result_and_a_run_keep_the_custom_events_of_all_rounds_with_objects_where_a_type_is_known() -> None:
    @tool
    def look() -> str:
        return "seen"

    values = [("progress", {"doneSteps": 1}), ("progress", {"doneSteps": "many"}), ("other", [1]), ("step", 2.0)]
    events = [CustomEvent(name=name, value=value) for name, value in values]
    rounds = turn(*events[:2], tool_call("look", {})), turn(*events[2:])
    models = {"progress": Progress, "step": int}
    agent = ScriptedAgent(*rounds, tools=[look], custom_models=models)
    with agent.stream_sync("Hi") as run:
        lengths = {len(run.custom) for _ in run}
    result = run.partial
    assert [each.value for each in result.custom] == [Progress(doneSteps=1), {"doneSteps": "many"}, [1], 2]
    assert (lengths, run.custom) == ({0, 1, 2, 3, 4}, result.custom)
    [warning] = result.warnings
    assert (warning.rule, warning.path, warning.event_type) == ("PASS-2", "/value/doneSteps", "CUSTOM")
    assert [each["value"] for each in json.loads(result.to_json())["custom"]] == [each for _, each in values]


@pytest.mark.parametrize(
    ("models", "problem"),
    [
        ([Progress], "custom_models= takes {name of the event: type}, not"),
        (
            {"progress": "Progress"},
            "custom_models={'progress': ...} takes a type that pydantic can read, not 'Progress'",
        ),
        ({"a": 3}, "custom_models={'a': ...} takes a type that pydantic can read, not 3"),
        ({1: Progress}, "custom_models= takes names of events, not 1"),
    ],
    ids=str,
)
def test_what_is_no_type_of_a_value_is_refused(models: Any, problem: str) -> None:
    with pytest.raises(UsageError, match=re.escape(problem)):
        ScriptedAgent(turn(), custom_models=models)


@pytest.mark.parametrize(
    ("shape", "problem"),
    [
        ("Progress", "parse takes a type that pydantic can read, not 'Progress'; give the type itself, not its name"),
        (GenericAlias(list, ("Nowhere",)), "not list['Nowhere']: Nowhere in it is not defined"),
        (3, "parse takes a type that pydantic can read, not 3"),
    ],
    ids=str,
)
def test_an_answer_is_not_read_as_what_is_no_type(shape: Any, problem: str) -> None:
    result = ScriptedAgent(turn(text("[]"))).run_agent_sync("Hi")
    with pytest.raises(UsageError, match=re.escape(problem)):
        result.parse(shape)


def test_what_a_tool_reported_is_written_even_if_it_is_no_json() -> None:
    @tool
    def dig(ctx: ToolContext) -> str:
        ctx.report(dig)
        return "done"

    result = ScriptedAgent(turn(tool_call("dig")), turn(text("Done.")), tools=[dig]).run_agent_sync("Hi")
    assert json.loads(result.to_json())["tool_executions"][0]["progress"] == [repr(dig)]


def test_a_conforming_run_logs_nothing_but_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "agui_client")
    result_of(text("One"), state({"n": 1}))
    logged = [(record.name, record.levelname) for record in caplog.records]
    assert logged == [("agui_client.run", "INFO"), ("agui_client.call", "INFO")]


def test_a_subagent_that_was_cancelled_or_cut_off_is_abandoned() -> None:
    begun = [{"type": "SUBAGENT_STARTED", "subagentRunId": each, "name": each} for each in ("late", "cut")]
    cancelled = {"type": "SUBAGENT_ERROR", "subagentRunId": "late", "message": "too late", "code": "cancelled"}
    started = RunStartedEvent(thread_id="thread-1", run_id="run-1")
    agent, statuses = ScriptedAgent([started, *begun, cancelled], thread_id="thread-1"), list[list[str]]()
    with agent.stream_sync("Hi", run_id="run-1") as run:
        for _ in range(4):
            next(run)
            statuses.append([each.status for each in run.partial.subagents])
        with pytest.raises(IncompleteRunError):
            next(run)
        assert [(each.status, each.error) for each in run.partial.subagents] == [
            ("abandoned", "too late"),
            ("abandoned", None),
        ]
    assert statuses == [[], ["running"], ["running", "running"], ["abandoned", "running"]]


@pytest.mark.parametrize(
    ("usage", "read"),
    [
        ([{"model": "m", "inputTokens": 2}], [TokenUsage(model="m", input_tokens=2)]),
        ("much", []),
        ([{"inputTokens": "two"}], []),
        ({"a": 1}, []),
    ],
)
def test_the_usage_that_the_end_of_a_subagent_reports_is_its_own_if_it_can_be_read(usage: Any, read: Any) -> None:
    metadata = {"agui-client": {"usage": usage}}
    begun = {"type": "SUBAGENT_STARTED", "subagentRunId": "s1", "name": "helper"}
    ended = {"type": "SUBAGENT_FINISHED", "subagentRunId": "s1", "metadata": metadata}
    (subagent,) = result_of(begun, ended).subagents
    assert (subagent.name, subagent.status, subagent.usage) == ("helper", "success", read)


@pytest.mark.parametrize(
    "answer",
    [
        '<think>Perhaps {"n": 1}?</think>\nIt is {"n": 2}.',
        '<thinking>\n```json\n{"n": 1}\n```\n</thinking>{"n": 2}',
        '<THINK>{"n": 1}</THINK>{"n": 2}',
        'Perhaps {"n": 1}?</think>{"n": 2}',
        '{"n": 2}<think>or {"n": 1}',
    ],
)
def test_json_in_thoughts_is_no_answer(answer: str) -> None:
    assert read_reply(written_replies(None, answer), dict[str, int]) == {"n": 2}


def test_a_tag_in_the_text_of_an_answer_begins_no_thoughts() -> None:
    assert read_reply(written_replies(None, '{"html": "<think> a"}'), dict[str, str]) == {"html": "<think> a"}
    with pytest.raises(ParseError):
        read_reply(written_replies(None, '<think>{"n": 1}'), dict[str, int])
