"""The examples run as they stand, warnings being errors, and print what they promise."""

from __future__ import annotations

import ast
import os
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import (
    RunErrorEvent,
    Tool,
    ToolMessage,
)

from agui_client import HttpAgent, Resolve, RunFailedError
from agui_client.demo import demo_agent
from agui_client.testing import ScriptedAgent, interrupt, serve, state, text, tool_call, turn
from support.programs import STRICT, Program

_PROJECT = Path(__file__).parents[2]
_EXAMPLES = _PROJECT / "examples"
_PROGRAMS = sorted(path.stem for path in _EXAMPLES.glob("*.py"))
_SECONDS = 90
_ENVIRONMENT = {**os.environ, "PYTHONPATH": str(_PROJECT), "PYTHONUTF8": "1"}


def _ended(program: str, *arguments: str, pace: float | None = None) -> tuple[str, str, int]:
    with Program(str(_EXAMPLES / f"{program}.py"), *arguments, flags=STRICT, pace=pace) as process:
        return (*process.communicate(timeout=_SECONDS), process.wait())


def _lines(program: str, *arguments: str, pace: float | None = None) -> list[str]:
    out, complaints, code = _ended(program, *arguments, pace=pace)
    assert (code, complaints) == (0, "")
    return _without_times(out)


def _without_times(printed: str) -> list[str]:
    return re.sub(r"[0-9.]+ seconds", "# seconds", printed).splitlines()


def printed(program: str) -> list[str]:
    """Run a program with a demo agent that makes no pauses; return the lines that it printed."""
    return _lines(program, pace=0)


@pytest.mark.parametrize("program", _PROGRAMS)
def test_an_example_is_one_page_and_says_at_its_top_what_it_shows(program: str) -> None:
    source = (_EXAMPLES / f"{program}.py").read_text(encoding="utf-8")
    assert len(source.splitlines()) <= (120 if program == "slack_bot" else 64)  # which is two pages
    assert ast.get_docstring(ast.parse(source))


def test_one_shot_prints_the_answer_and_what_the_run_came_to() -> None:
    lines = printed("one_shot")
    assert lines[0] == "18 degrees and clear: a day for the *outdoors*."
    assert lines[-4].startswith("state: {'trip': {'city': 'Oslo', 'weather': {'celsius': 18")
    assert lines[-3:] == [
        "demo-script: 412 tokens in, 168 out",
        "it took # seconds",
        "the agent asks: Buy two ferry tickets for 94 NOK?",
    ]


def test_batch_prints_the_answer_to_each_row_and_a_summary() -> None:
    out, progress, code = _ended("batch", pace=0)
    *answers, summary, times = out.splitlines()
    assert (code, progress.count(" rows, 0 failed, "), len(answers)) == (0, 3, 3)
    assert {line.partition(": ")[0] for line in answers} == {"Oslo", "Bergen", "Tromsø"}
    assert "Oslo: 18 degrees and clear: a day for the *outdoors*." in answers
    assert (summary.startswith("3 of 3 rows in "), times.startswith("agent: ")) == (True, True)


def test_kept_runs_go_on_while_their_page_is_closed() -> None:
    assert printed("kept_runs")[1:] == ["the run is running", "the page has 6 messages, and the run is finished"]


def test_a_durable_run_goes_on_when_its_process_is_killed(tmp_path: Path) -> None:
    program, database = str(_EXAMPLES / "durable_run.py"), str(tmp_path / "report.db")
    pace = {**_ENVIRONMENT, "PACE": "0.1"}
    with Program(program, database, flags=STRICT, env=pace) as first:
        assert first.stdout is not None
        assert next(line for line in first.stdout if line.startswith("2 of"))
    with Program(program, database, flags=STRICT, env=pace) as second:
        report = second.communicate(timeout=_SECONDS)[0].splitlines()[-6:]
    chapters, writers = zip(*(line.split(", written by process ") for line in report), strict=True)
    assert chapters == tuple(f"Chapter {number}" for number in range(1, 7))
    assert set(writers) == {f"{first.pid}.", f"{second.pid}."}


def test_evaluate_prints_a_report_of_pydantic_evals_on_the_answers() -> None:
    pytest.importorskip("pydantic_evals", reason="needs pydantic-evals: pip install pydantic-evals")
    out, complaints, code = _ended("evaluate", pace=0)
    assert (code, complaints, "Evaluation Summary: demo" in out) == (0, "", True)
    assert re.search("oslo .* ✔ ", out)
    assert re.search("bergen .* ✗ ", out)
    assert "2 of 2 rows in " in out


def test_prove_agent_prints_both_agents_and_keeps_a_short_failure() -> None:
    out = printed("prove_agent")
    assert out[0] == "30 of 40 conversations passed"
    assert out[2].endswith("  careful is better")
    assert out[-1] == "kept as ['Book the ferry']: not_called: \"buy_tickets\""


def test_telemetry_prints_the_spans_of_a_call_and_its_metrics() -> None:
    assert printed("telemetry") == [
        "invoke_agent guide: # seconds",
        "    run guide: # seconds",
        "        POST: # seconds",
        "    execute_tool get_weather: # seconds",
        "    run guide: # seconds",
        "        POST: # seconds",
        "agui.client.active_runs in {run}: 1 series",
        "gen_ai.client.operation.duration in s: 1 series",
        "gen_ai.client.operation.time_to_first_chunk in s: 1 series",
        "agui.client.run.time_to_first_text in s: 1 series",
        "gen_ai.execute_tool.duration in s: 1 series",
        "gen_ai.client.token.usage in {token}: 2 series",
        "gen_ai.client.invoke_agent.duration in s: 1 series",
    ]


def test_teams_work_one_after_the_other_side_by_side_and_with_an_approval_three_agents_deep() -> None:
    lines = [line for line in printed("teams") if line.startswith("[")]
    day = "18 degrees and clear: a day for the *outdoors*."
    booked = "The guide wrote 226 characters. Done: **two tickets** for the 12:10 ferry. Have a good day in Oslo!"
    assert lines == [
        f"['researcher', 'writer']: {day}",
        f"['optimist', 'pessimist', 'judge']: {day}",
        f"['office', 'desk', 'clerk'] after 'Buy two ferry tickets for 94 NOK?': {booked}",
    ]


def test_an_example_asks_the_agent_at_the_url_it_is_given() -> None:
    with serve(ScriptedAgent(turn(text("It is the Po.")))) as server:
        lines = _lines("one_shot", server.url)
    assert lines == [
        "It is the Po.",
        "2 messages, the last one from the assistant",
        "state: {}",
        "it took # seconds",
    ]


def test_streaming_text_prints_all_text_of_the_run() -> None:
    lines = printed("streaming_text")
    assert lines[0] == "## A day in Oslo"
    assert lines[-1] == "5 new messages"
    assert "18 degrees and clear: a day for the *outdoors*." in lines


def test_typed_events_prints_each_kind_of_event_in_its_own_way() -> None:
    lines = printed("typed_events")
    assert lines[0] == "[the agent speaks AG-UI 1.0]"
    assert lines[-1] == "[finished: interrupt]"
    assert [line.partition(" ->")[0] for line in lines if line.startswith("[get_weather")] == [
        '[get_weather {"city": "Oslo", "day": "Saturday", "units": "celsius"}'
    ]
    assert len([line for line in lines if "[state: {'trip': " in line]) == 5


def test_the_sync_script_asks_twice_in_one_thread() -> None:
    lines = printed("sync_script")
    assert lines[0] == "## A day in Oslo"
    assert "second answer: Nothing was bought. The plan stands; the ferry takes cards on board." in lines
    assert lines[-1] == "2 questions in one thread"


def test_the_sync_script_tells_a_failed_agent_from_an_unusable_answer() -> None:
    failing = ScriptedAgent(turn(text("Hm"), RunErrorEvent(message="overloaded")))
    silent = ScriptedAgent([])
    with serve(failing) as server, serve(silent) as mute:
        ends = [_ended("sync_script", server.url), _ended("sync_script", mute.url)]
    assert ends[0] == ("Hm", "the agent failed: overloaded\n", 1)
    assert (ends[1][0], ends[1][1].partition(":")[0], ends[1][2]) == ("", "no usable answer", 3)


def test_the_rx_pipeline_hears_of_the_weather_once_and_prints_all_text() -> None:
    lines = printed("rx_pipeline")
    shown = "\n".join(lines)
    assert re.findall(r"\[weather: (.*)\]", shown) == ["unknown", "{'celsius': 18, 'sky': 'clear', 'wind': 'light'}"]
    assert "18 degrees and clear: a day for the *outdoors*." in shown
    assert lines[-1] == "6 messages"


def test_shared_state_keeps_what_both_sides_wrote() -> None:
    assert printed("shared_state") == ["Norwegian /language", "Norwegian, 3 stops, declined"]


def test_custom_agents_work_like_remote_ones() -> None:
    assert printed("custom_agent") == [
        "You said: hello",
        "You said: hello again",
        "['user', 'assistant', 'user', 'assistant']",
        "RUN_STARTED: {}",
        "STATE_SNAPSHOT: {'count': 1}",
        "STATE_SNAPSHOT: {'count': 2}",
        "STATE_SNAPSHOT: {'count': 3}",
        "RUN_FINISHED: {'count': 3}",
        "{'counted': 3}",
    ]


def test_middleware_goes_around_the_run_from_outside_in() -> None:
    lines = printed("middleware")
    assert lines[:2] == ["[sent for the tenant acme]", "[the agent calls get_weather]"]
    assert lines[2].endswith(" events in # seconds]")
    assert lines[3] == "18 DEGREES AND CLEAR: A DAY FOR THE *OUTDOORS*."


def test_interrupts_are_approved_in_one_conversation_cancelled_in_its_clone_and_answered_inline() -> None:
    lines = printed("interrupts")
    assert lines[0] == "the agent asks: Buy two ferry tickets for 94 NOK?"
    results = ["result: {'tickets': 'bought'}", *["result: {'tickets': 'declined'}"] * 2]
    assert [line for line in lines if line.startswith("result: ")] == results
    assert lines[-3] == "Buy two ferry tickets for 94 NOK? ['approved']: no"


def test_surfaces_are_filled_in_and_pressed() -> None:
    assert printed("surfaces") == [
        "not yet: 'book' cannot be pressed yet: Who is going?",
        "book: {'name': 'Ann', 'ferry': 'dawn'}",
        "Booked dawn for Ann.",
    ]


def test_tools_are_shown_while_they_are_called_and_carried_out() -> None:
    lines = printed("tools")
    assert lines[:6] == [
        "[get_weather is called with {}]",
        "[get_weather is called with {'city': 'Oslo'}]",
        "[get_weather: running]",
        "[get_weather: running, looking up Oslo]",
        "[get_weather: succeeded, looking up Oslo]",
        "The weather: 18 degrees: a day for the *outdoors*.",
    ]
    assert lines[-1] == "2 requests, ['succeeded']"


def test_a_tool_of_an_example_tells_the_agent_what_it_does_not_know() -> None:
    producer = ScriptedAgent(turn(tool_call("get_weather", {"city": "Rome"})), turn(text("Then not.")))
    with serve(producer) as server:
        lines = _lines("tools", server.url)
    assert lines[-2:] == ["Then not.", "2 requests, ['failed']"]
    answer = producer.inputs[1].messages[-1]
    assert isinstance(answer, ToolMessage)
    assert answer.error == "There is no weather for 'Rome'; known are Oslo, Turin."


def test_approval_is_given_with_one_ticket_refused_and_given_later() -> None:
    asked = "may the agent call buy_tickets with {'route': 'B1', 'count': 2}?"
    out, complaints, code = _ended("approval", pace=0)
    assert (code, complaints) == (0, "")
    assert [line for line in _without_times(out) if line] == [
        f"{asked} with one ticket, yes",
        "--- bought 1 for B1",
        "Done: the tickets are yours.",
        f"{asked} no",
        "Nothing was bought. The plan stands.",
        'waiting: [\'{"route": "B1", "count": 2}\']',
        "--- bought 2 for B1",
        "Done: the tickets are yours.",
    ]


def test_the_demo_does_not_say_that_nothing_was_bought_where_nobody_knows() -> None:
    offered = Tool(name="buy_tickets", description="Buys.", parameters={"type": "object", "properties": {}})
    agent = demo_agent(pace=0)
    [call] = agent.run_agent_sync("Book the ferry", tools=[offered]).pending_tool_calls
    unknown = "unknown: the tool was called, and stopped before it answered; it may have had its effect or not"
    result = agent.run_agent_sync(tool_results={call.id: unknown})
    assert result.text == "I cannot tell whether the tickets were bought.\n"


def test_threads_go_on_in_the_next_program(tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy", reason="needs the extra store: pip install 'agui-client[store]'")
    with serve(demo_agent(pace=0)) as server:
        first, second = (_lines("threads", server.url, str(tmp_path / "chats.db")) for _ in range(2))
    title = "Plan my Saturday in Oslo."
    assert first == ["0 messages so far", f"{title}: 9 messages", f"{title}: 6 messages", "[]", f"# {title}"]
    assert second[0] == "6 messages so far"


def test_the_proxy_passes_tools_interrupts_and_answers_on() -> None:
    asking = turn(text("Hm."), outcome=interrupt("Proceed?", interrupt_id="i"))
    remote = ScriptedAgent(asking, turn(tool_call("look", tool_call_id="c")), turn(text("Done."), state({"n": 1})))
    look = Tool(name="look", description="Looks.", parameters={"type": "object", "properties": {}})
    app: Any = runpy.run_path(str(_EXAMPLES / "proxy_fastapi.py"))["app"]
    with serve(remote) as server, serve(app) as front:
        app.state.agent_url = server.url
        agent = HttpAgent(f"{front.url}agent", tools=[look], thread_id="t", initial_state={"n": 0})
        assert [each.id for each in agent.run_agent_sync("Hi").interrupts] == ["i"]
        assert [each.id for each in agent.run_agent_sync(resume={"i": Resolve("yes")}).pending_tool_calls] == ["c"]
        result = agent.run_agent_sync(tool_results={"c": "seen"})
    assert (result.text, result.state, result.warnings) == ("Done.", {"n": 1}, [])
    assert [each.thread_id for each in remote.inputs] == ["t"] * 3
    assert [[each.interrupt_id for each in run.resume or ()] for run in remote.inputs] == [[], ["i"], []]


def test_the_proxy_reports_an_agent_that_failed_or_is_not_there() -> None:
    app: Any = runpy.run_path(str(_EXAMPLES / "proxy_fastapi.py"))["app"]
    with serve(app) as front:
        agent = HttpAgent(f"{front.url}agent")
        with serve(ScriptedAgent(turn(text("Hm"), RunErrorEvent(message="overloaded")))) as remote:
            app.state.agent_url = remote.url
            with pytest.raises(RunFailedError, match="The agent failed") as failed:
                agent.run_agent_sync("Hi")
        with pytest.raises(RunFailedError, match="The agent failed") as absent:
            agent.run_agent_sync("Hi")
    assert (failed.value.code, absent.value.code) == ("upstream_failed", "upstream_unreachable")


def test_the_recording_is_replayed_word_for_word() -> None:
    lines = printed("recording")
    first, second = lines.index("--- the same again, from the recording"), lines.index("--- what was recorded")
    assert lines[:first] == lines[first + 1 : second] != []
    assert re.fullmatch(r"\d+ events from RUN_STARTED to RUN_FINISHED: success", lines[-1])
