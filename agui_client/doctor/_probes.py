"""The probes: short conversations with a server, each of which asks one question about it.

A probe notes what the server can do, and finds what it gets wrong. What any run may show is judged for all of them, see
`_judging`.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from secrets import choice, token_hex
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any

import anyio
from ag_ui.core import ResumeEntry

from agui_client._core.ground.json_reading import load_json
from agui_client._core.protocol.schema import is_object
from agui_client._core.tools.function import FunctionTool, tool
from agui_client._core.tools.interrupts import Cancel
from agui_client._core.transport.retry import BUSY_STATUSES
from agui_client.doctor._judging import Seen, Symptom, is_found
from agui_client.errors import (
    HTTPStatusError,
    RunFailedError,
    ToolRoundsExceededError,
)

if TYPE_CHECKING:
    from agui_client.doctor._examination import Examination
    from agui_client.doctor._exchanges import ProbeAgent, ProbeExchange

PROMPTS: dict[str, str] = {
    "hello": "Count from one to twenty, in words.",
    "tools": "What is the weather in Oslo? Call the tool {tool}.",
    "parallel": "What is the weather in Oslo, and in Turin? Call the tool {tool} for both cities at once.",
    "long": "Count from one to two hundred, in words.",
    "state": "",
    "interrupt": "",
    "error": "",
}
"""The prompts by name, {tool} in place of the tool's name; empty where a probe needs none, or is left out."""
_MARKER = {"agui_doctor": "stays"}
_NEWER = {"protocol_version": "1.99", "aguiDoctor": True}
"""Changes that make an input one of a newer minor version."""
_WEATHER = "18 degrees, a light wind"
_NOT_FOR_US = {
    401: "; give credentials with a header",
    403: "; give credentials with a header",
    404: "; is this the address that takes runs?",
    405: "; is this the address that takes runs?",
    407: "; the proxy wants credentials",
}
"""Statuses that say nothing of the server, but that it was asked in the wrong way, with advice."""
FAMILIES = {
    "reasoning": "REASONING_",
    "steps": "STEP_",
    "subagents": "SUBAGENT_",
    "activities": "ACTIVITY_",
    "messages by snapshot": "MESSAGES_SNAPSHOT",
    "state by snapshot": "STATE_SNAPSHOT",
    "state by patches": "STATE_DELTA",
    "custom events": "CUSTOM",
    "raw events": "RAW",
}
"""Abilities, with the beginnings of the events that show them."""


class SkippedError(Exception):
    """Raised by a probe that cannot ask its question; says why."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A probe."""

    name: str
    """The name."""
    title: str
    """The question."""
    runs: int
    """The number of runs that it asks for."""
    most: int
    """The same, if runs are not served and it has to find out why."""
    make: Callable[[Examination], Awaitable[None]]
    """The function that asks."""
    prompt: str = ""
    """The prompt that it cannot do without; empty if there is none."""
    connecting: int = 0
    """The number of further runs, where it is known how to connect to a thread."""


def tool_names() -> Iterator[str]:
    """Yield names for the tool that is offered, the next one for a server that refuses those before.

    A server may have tools of its own, and many refuse two of one name, so that a plain name would blame good servers.
    """
    yield f"forecast_{token_hex(3)}"
    # Some models take letters only.
    yield "forecast" + "".join(choice(ascii_lowercase) for _ in range(6))


def _weather_tool(name: str) -> FunctionTool[[str], str]:
    @tool(name=name)
    def look_up(city: str) -> str:
        """Look up the weather in a city."""
        return f"{_WEATHER} in {city}"

    return look_up


def _given_tool(definition: Mapping[str, Any]) -> FunctionTool[..., Any]:
    """Make the tool that the caller describes; it returns the weather unless a result is given."""
    result: Any = definition.get("result", f"{_WEATHER} in Oslo")
    parameters = definition.get("parameters") or {"type": "object"}
    description = str(definition.get("description") or "")

    async def call(**arguments: Any) -> Any:
        """Return the result that is given, whatever the arguments."""
        return result

    name = str(definition["name"])
    return FunctionTool[..., Any](call, name=name, parameters=parameters, description=description)


async def _hello(doctor: Examination) -> None:
    """Ask for a plain run."""
    seen = await doctor.ask(doctor.agent(), doctor.prompt("hello"))
    exchange = seen.last
    if exchange is not None and exchange.frames:
        started = next((each for each in exchange.events if each.get("type") == "RUN_STARTED"), exchange.events[0])
        declared = started.get("protocolVersion")
        doctor.note("declares a protocol version", declared is not None, str(declared or "none, as before 1.0"))
        doctor.note(
            "HTTP", True, f"{exchange.http_version}, {exchange.headers.get('content-encoding') or 'not packed'}"
        )
    status = seen.error.status_code if isinstance(seen.error, HTTPStatusError) else None
    if status in _NOT_FOR_US:
        doctor.is_reachable, doctor.obstacle = False, "no run was possible"
        raise SkippedError(seen.reason + _NOT_FOR_US[status])
    if seen.is_refused:
        if not is_found(seen):
            doctor.find(_refusal("DOC-1" if status is None else "SSE-8", "a plain run is not served", seen))
        doctor.obstacle = "the plain run was not served"
    elif seen.result is not None and seen.error is None:
        timings = seen.result.timings
        first = "no text" if timings.first_text is None else f"text after {timings.first_text:.2f} s"
        doctor.note("plain runs", True, f"{first}, {timings.total or 0:.2f} s in all")
        doctor.note("token usage", bool(seen.result.usage), "in RUN_FINISHED" if seen.result.usage else "not reported")
    _note_events(doctor, seen)


async def _again(doctor: Examination) -> None:
    """Ask for two runs on one thread, with a state."""
    agent, first = await _first_run(doctor)
    ids = _started_ids(first)
    second = await doctor.ask(agent, doctor.setup.prompts.get("state") or doctor.prompt("hello"))
    _note_events(doctor, second)
    doctor.note("second run of a thread", not second.is_refused, _service(second))
    if second.is_refused:
        await _blame(doctor, "INPUT-1", "the second run of a thread is not served, but the first was", second)
    for exchange in second.exchanges if second.error is None else ():
        for index, event in enumerate(exchange.events):
            if (name := _started_id(event)) in ids:
                problem = f"{event['type']} has an id that an earlier run of the thread used: {name}"
                kind = str(event["type"])
                doctor.find(Symptom("LIFE-15", problem, exchange=exchange, event=index, kind=kind))


async def _first_run(doctor: Examination) -> tuple[ProbeAgent, Seen]:
    """Ask for a run with a state; for one without, if the server takes none of that shape.

    Raises:
        SkippedError: The run is not served.
    """
    given = doctor.setup.state
    agent = doctor.agent(state=dict(_MARKER) if given is None else given)
    before = agent.state
    seen = await doctor.ask(agent, doctor.prompt("hello"))
    if not seen.is_refused:
        _judge_state(doctor, before, agent, seen)
    elif given is not None:
        await _blame(doctor, "STATE-1", "a run with the given state is not served, but one without is", seen)
        raise SkippedError("the given state was refused")
    else:
        # A state with a fixed shape may refuse what it does not know.
        doctor.note("keeps a state that it is sent", None, f"members that it does not know are refused: {seen.reason}")
        agent = doctor.agent()
        seen = await doctor.ask(agent, doctor.prompt("hello"))
        if seen.is_refused:
            await _blame(doctor, "DOC-1", "a plain run is served at times", seen)
            raise SkippedError("a plain run was not served")
    return agent, seen


def _lost(before: Mapping[str, Any], after: Any) -> list[str]:
    """Return the names of the members of a state that another has no value for."""
    kept = after if is_object(after) else {}
    return [name for name, value in before.items() if value is not None and kept.get(name) is None]


def _judge_state(doctor: Examination, before: Any, agent: ProbeAgent, seen: Seen) -> None:
    """Look for the members of a state that a run was sent, after a run that was to leave them alone."""
    snapshots = [
        (exchange, index)
        for exchange in seen.exchanges
        for index, event in enumerate(exchange.events)
        if event.get("type") == "STATE_SNAPSHOT"
    ]
    if not snapshots or not is_object(before) or not before:
        doctor.note("keeps a state that it is sent", None, "it sent no snapshot of it")
        return
    lost = _lost(before, agent.state)
    if doctor.setup.state is None:
        detail = "also members that it does not know" if not lost else "but members that it does not know are dropped"
        doctor.note("keeps a state that it is sent", None if lost else True, detail)
        return
    if lost:
        exchange, index = snapshots[-1]
        problem = f"the state of the input does not come back: STATE_SNAPSHOT has no value for {', '.join(lost)}"
        doctor.find(Symptom("STATE-1", problem, exchange=exchange, event=index))
    doctor.note("keeps a state that it is sent", not lost, f"lost: {', '.join(lost)}" if lost else "")


async def _newer(doctor: Examination) -> None:
    """Ask as a client of a newer minor version does."""
    seen = await doctor.ask(doctor.agent(changes=_NEWER), doctor.prompt("hello"))
    if seen.is_refused:
        problem = "an input of version 1.99 with an unknown member is not served, but one of 1.0 is"
        await _blame(doctor, "VER-9", problem, seen)
    doctor.note("clients of newer minor versions", not seen.is_refused, _service(seen))


async def _tools(doctor: Examination) -> None:
    """Offer a tool, and give the result of its call."""
    count = await _round_trip(doctor, "tools")
    if not count:
        doctor.note("tools of the client", None, "the agent called none; try --prompt tools=TEXT")


async def _parallel(doctor: Examination) -> None:
    """Ask for two calls of a tool in one run."""
    if (ability := doctor.ability("tools of the client")) is None or ability.verdict != "yes":
        raise SkippedError("no tool was called before")
    count = await _round_trip(doctor, "parallel")
    detail = f"{count} calls in one run" if count > 1 else "one call at a time; try --prompt parallel=TEXT"
    doctor.note("parallel tool calls", True if count > 1 else None, detail)


async def _round_trip(doctor: Examination, name: str) -> int:
    """Offer a tool, and give the results of its calls; return the number of calls in the first run."""
    seen = await _offer(doctor, name)
    if seen.is_refused and len(seen.exchanges) == 1:
        refused, refused_name = seen, doctor.tool_name
        if not doctor.rename_tool() or (seen := await _offer(doctor, name)).is_refused:
            problem = "a run that offers a tool is not served, but one without is"
            await _blame(doctor, "DOC-10", problem, refused)
            return 0
        detail = f"{refused_name} was refused, {doctor.tool_name} was not: {refused.reason}"
        doctor.note("any name of a tool", False, detail)
    calls = _calls(seen.exchanges[0]) if seen.exchanges else {}
    offered = [call_id for call_id, called in calls.items() if called == doctor.tool_name]
    if not offered:
        return 0
    first = seen.exchanges[0]
    answered = [index for index, event in enumerate(first.events) if _is_result_of(event, offered)]
    if answered:
        problem = "the server sends a result for a call of the client's tool"
        doctor.find(Symptom("TOOL-8", problem, exchange=first, event=answered[0]))
        return len(offered)
    detail = f"{len(offered)} called"
    if isinstance(seen.error, ToolRoundsExceededError):
        again = _arguments(seen.exchanges[-1])
        if again & _arguments(first):
            problem = "the agent makes the same call again, although its result is in the input"
            doctor.find(Symptom("TOOL-10", problem, exchange=seen.last))
            detail += "; the result was not used"
        else:
            detail += "; further calls followed"
    elif len(seen.exchanges) > 1 and seen.is_refused:
        await _blame(doctor, "TOOL-10", "the run that brings the result of a tool is not served", seen)
        detail += "; the result was refused"
    elif seen.result is not None and seen.error is None:
        used = "is in the reply" if _WEATHER.partition(" ")[0] in seen.result.text else "is not in the reply"
        detail += f"; the result {used}"
    if name == "tools":
        doctor.note("tools of the client", True, detail)
    return len(offered)


async def _offer(doctor: Examination, name: str) -> Seen:
    given = doctor.setup.tool
    offered = _weather_tool(doctor.tool_name) if given is None else _given_tool(given)
    return await doctor.ask(doctor.agent(tools=[offered]), doctor.prompt(name))


async def _leave(doctor: Examination) -> None:
    """Leave a run in the middle, and continue the thread; leave another one, and connect to its thread."""
    agent = doctor.agent()
    seen = await doctor.ask_and_leave(agent, doctor.prompt("long"))
    if not seen.was_left:
        raise SkippedError("the run ended before it could be left")
    after = await doctor.ask(agent, doctor.prompt("hello"))
    if not after.is_refused:
        seconds = after.result.timings.total if after.result is not None else None
        doctor.note("thread after a run that was left", True, f"the next run took {seconds or 0:.2f} s")
    else:
        await anyio.sleep(doctor.setup.pause)
        once_more = await doctor.ask(agent, doctor.prompt("hello"))
        if once_more.is_refused:
            problem = "after the client has left a run, the thread serves no further run"
            await _blame(doctor, "DOC-5", problem, once_more)
            doctor.note("thread after a run that was left", False, once_more.reason)
            return
        free = f"free within {doctor.setup.pause:g} s: before, {after.reason}"
        doctor.note("thread after a run that was left", True, free)
    await _connect(doctor)


async def _connect(doctor: Examination) -> None:
    """Leave a run, and connect to its thread, to see what has become of the run; the protocol leaves that open."""
    agent = doctor.agent()
    if not agent.can_connect:
        doctor.note("run after it was left", None, "no address is known that sends threads again")
        return
    await doctor.ask_and_leave(agent, doctor.prompt("long"))
    arrived = _last_text(agent)
    again = doctor.agent(thread_id=agent.thread_id)
    seen = await doctor.connect(again)
    if seen.is_refused or not again.messages:
        doctor.note("connects to a thread", False, seen.reason or "no message of the thread came back")
        return
    doctor.note("connects to a thread", True, _service(seen))
    brought = _last_text(again)
    seen_of_it = f"{len(arrived)} characters had arrived, {len(brought)} came back"
    continued = len(brought) > len(arrived) and seen.error is None
    doctor.note("run after it was left", continued or None, seen_of_it + ("; it continued" if continued else ""))


def _last_text(agent: ProbeAgent) -> str:
    """Return the latest reply in a thread, as far as it has come."""
    texts = [each.content or "" for each in agent.messages if each.role == "assistant"]
    return texts[-1] if texts else ""


async def _interrupt(doctor: Examination) -> None:
    """Make the server ask, cancel all questions, and send the same answers again."""
    given = doctor.setup.state
    agent = doctor.agent(state=given)
    asked = await doctor.ask(agent, doctor.prompt("interrupt"))
    _note_events(doctor, asked)
    before = agent.state
    questions = agent.pending_interrupts
    if not questions:
        raise SkippedError("the run ended without an interrupt")
    schemas = sum(each.response_schema is not None for each in questions)
    doctor.note("interrupts", True, f"{len(questions)} asked, {schemas} with a schema of the answer")
    names = {each.id for each in questions}
    resumed = await doctor.ask(agent, None, resume={name: Cancel() for name in names})
    repeated = names & {each.id for each in agent.pending_interrupts}
    if resumed.is_refused:
        await _blame(doctor, "INT-1", "the run that answers the interrupts is not served", resumed)
    elif repeated:
        problem = "the run that answers the interrupts ends with the same interrupts again"
        doctor.find(Symptom("INT-1", problem, exchange=resumed.last))
    if given is not None and not (resumed.is_refused or repeated) and is_object(before):
        lost = _lost(before, agent.state)
        if lost:
            problem = f"the run that answers the interrupts loses members of the state: {', '.join(lost)}"
            doctor.find(Symptom("STATE-1", problem, exchange=resumed.last, kind="resume"))
        doctor.note("keeps the state over an interrupt", not lost, f"lost: {', '.join(lost)}" if lost else "")
    doctor.note("answers to interrupts", not (resumed.is_refused or repeated), resumed.reason or "all were cancelled")
    if resumed.is_refused or agent.pending_interrupts:
        return
    agent.changes["resume"] = [ResumeEntry(interrupt_id=name, status="cancelled") for name in names]
    stray = await doctor.ask(agent, doctor.prompt("hello"))
    doctor.note("ignores stray answers", not stray.is_refused, stray.reason)
    left = doctor.agent()
    await doctor.ask(left, doctor.prompt("interrupt"))
    left.abandon_interrupts()
    left.changes["resume"] = None
    after = await doctor.ask(left, doctor.prompt("hello"))
    doctor.note("continues without answers", not after.is_refused, after.reason)
    await _answer_one(doctor)


async def _answer_one(doctor: Examination) -> None:
    """Answer one of several interrupts, which clients must not do (INT-3), and no rule says what a server does then."""
    name = "insists on all answers"
    agent = doctor.agent()
    await doctor.ask(agent, doctor.prompt("interrupt"))
    first, *others = [each.id for each in agent.pending_interrupts] or [""]
    if not others:
        doctor.note(name, None, "it asked one question at a time")
        return
    agent.abandon_interrupts()
    agent.changes["resume"] = [ResumeEntry(interrupt_id=first, status="cancelled")]
    seen = await doctor.ask(agent, None)
    asked = {each.id for each in agent.pending_interrupts}
    missing = f"{len(others)} of {len(others) + 1} answers were missing"
    if seen.is_refused:
        doctor.note(name, True, f"{missing}; {seen.reason}")
    elif asked:
        again = "the same questions came again" if asked & {first, *others} else "further questions came"
        doctor.note(name, True, f"{missing}; {again}")
    else:
        doctor.note(name, False, f"{missing}; the run continued without them")


async def _error(doctor: Examination) -> None:
    """Make the agent fail."""
    seen = await doctor.ask(doctor.agent(), doctor.prompt("error"))
    failed = isinstance(seen.error, RunFailedError)
    doctor.note("reports errors as RUN_ERROR", True if failed else None, seen.reason or "the run succeeded")


async def _malformed(doctor: Examination) -> None:
    """Send what is not an input."""
    seen = await doctor.post(b'{"threadId": 1, "messages": "none"}')
    exchange = seen.last
    status = exchange.status if exchange is not None else None
    if status is not None and status >= 500:
        problem = f"the server responds with {status} to an input that is not a RunAgentInput"
        doctor.find(Symptom("DOC-7", problem, exchange=exchange))
    last = exchange.events[-1].get("type") if exchange is not None and exchange.frames else None
    refused = last == "RUN_ERROR" or (status is not None and 400 <= status < 500)
    ending = f"with {last or status}" if refused else f"it is served: {last or status} came last"
    detail = ending if last or status else seen.reason
    doctor.note("refuses malformed inputs", refused, detail)


PROBES = (
    Probe("hello", "Does it serve a plain run?", 1, 1, _hello),
    Probe("again", "Does it serve a second run of a thread, and keep the state?", 2, 4, _again),
    Probe("newer", "Does it serve clients of a newer minor version?", 1, 2, _newer),
    Probe("tools", "Does it call a tool of the client, and use the result?", 2, 4, _tools),
    Probe("parallel", "Does it call tools in parallel?", 2, 4, _parallel),
    Probe("leave", "Does a thread continue after a client has left a run?", 2, 4, _leave, connecting=2),
    Probe("interrupt", "Does it ask, and take the answers?", 7, 8, _interrupt, "interrupt"),
    Probe("error", "Does it report errors?", 1, 1, _error, "error"),
    Probe("malformed", "Does it refuse what is not an input?", 0, 0, _malformed),
)
"""All probes, in order."""


def _service(seen: Seen) -> str:
    """Say why a run was not served, or with which fault."""
    return f"served, but {seen.reason}" if seen.reason and not seen.is_refused else seen.reason


def _note_events(doctor: Examination, seen: Seen) -> None:
    """Note the kinds of events that came."""
    kinds = {str(event.get("type")) for exchange in seen.exchanges for event in exchange.events}
    for name, beginning in FAMILIES.items():
        if any(kind.startswith(beginning) for kind in kinds):
            doctor.note(name, True, "")
    if any(kind.endswith("_CHUNK") for kind in kinds):
        doctor.note("chunk events", True, "")


async def _blame(doctor: Examination, rule: str, problem: str, seen: Seen) -> None:
    """Find a rule broken by a run that was not served, unless plain runs are not served any more either."""
    if rule in _NEED_SECOND_RUNS and doctor.has_found("INPUT-1"):
        return
    if isinstance(seen.error, HTTPStatusError) and seen.error.status_code in BUSY_STATUSES:
        doctor.obstacle = f"the server responds with {seen.error.status_code} by now: it wants fewer requests"
        raise SkippedError(doctor.obstacle)
    control = await doctor.ask(doctor.agent(), doctor.prompt("hello"))
    if control.is_refused:
        doctor.obstacle = "plain runs are not served any more"
        doctor.find(_refusal("DOC-1", "a plain run is not served, but the same one was before", control))
    else:
        doctor.find(_refusal(rule, problem, seen))


_NEED_SECOND_RUNS = ("TOOL-10", "DOC-5", "INT-1")
"""Rules that cannot be kept where a thread has one run only."""


def _refusal(rule: str, problem: str, seen: Seen) -> Symptom:
    body = seen.error.body if isinstance(seen.error, HTTPStatusError) else None
    return Symptom(rule, f"{problem}: {seen.reason}", exchange=seen.last, detail=body or None)


_IDS_OF_STARTS = {"TEXT_MESSAGE_START": "messageId", "TOOL_CALL_START": "toolCallId"}


def _started_id(event: Mapping[str, Any]) -> str | None:
    name = event.get(_IDS_OF_STARTS.get(str(event.get("type")), ""))
    return name if isinstance(name, str) else None


def _started_ids(seen: Seen) -> set[str]:
    names = (_started_id(event) for exchange in seen.exchanges for event in exchange.events)
    return {name for name in names if name is not None}


def _is_result_of(event: Mapping[str, Any], call_ids: Collection[str]) -> bool:
    return event.get("type") == "TOOL_CALL_RESULT" and str(event.get("toolCallId")) in call_ids


def _calls(exchange: ProbeExchange) -> dict[str, str]:
    """Return the names of the tools that were called in a response, by call id."""
    calls: dict[str, str] = {}
    for event in exchange.events:
        match event:
            case {"type": "TOOL_CALL_START" | "TOOL_CALL_CHUNK", "toolCallName": str(name), "toolCallId": str(call_id)}:
                calls[call_id] = name
            case _:
                pass
    return calls


def _arguments(exchange: ProbeExchange) -> set[str]:
    """Return the arguments of the calls in a response, as JSON in one form."""
    texts: dict[str, str] = {}
    latest = ""
    for event in exchange.events:
        if str(event.get("type")).startswith("TOOL_CALL_") and isinstance(event.get("delta", ""), str):
            latest = str(event.get("toolCallId") or latest)
            texts[latest] = texts.get(latest, "") + event.get("delta", "")
    found: set[str] = set()
    for text in texts.values():
        with suppress(ValueError, RecursionError):
            found.add(json.dumps(load_json(text or "{}"), sort_keys=True))
    return found
