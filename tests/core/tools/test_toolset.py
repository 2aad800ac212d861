"""Toolsets: opened before the first run of a call, listed for each run, asked about each call, closed at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio
import pytest
from ag_ui.core import RunAgentInput, TextPart, Tool

from agui_client import (
    AGUIError,
    ApprovalRequest,
    Approve,
    FunctionTool,
    FunctionToolset,
    ToolContext,
    ToolError,
    ToolLimits,
    Toolset,
    ToolsetError,
    UsageError,
    tool,
)
from agui_client._core.tools.toolset import FAILED, CallTools
from agui_client.testing import ScriptedAgent, text, tool_call, turn
from agui_client.types import BoundCall
from support.tool_rounds import Ran, results_sent, tools_sent
from support.verbs import Verb, every_kind_of_verb, every_result_verb
from support.waiting import LIMIT

DONE = turn(text("Done."))
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 3, "maximum": 10}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER = Tool(name="weather", description="Says the weather.", parameters=CITY)
ASK_USER = Tool(name="ask_user", description="Asks the user.", parameters={"type": "object"})


class Weather(Toolset):
    """A connection to a weather service; notes what happens to it."""

    def __init__(self, name: str = "weather", notes: list[Any] | None = None) -> None:
        self.notes: list[Any] = [] if notes is None else notes
        self.name = name
        self.fails: dict[str, BaseException] = {}
        self.rule: Any = "never"

    def __repr__(self) -> str:
        return f"<Weather {self.name}>"

    async def __aenter__(self) -> Weather:
        await anyio.lowlevel.checkpoint()
        self._note("open")
        return self

    async def __aexit__(self, exc_type: Any, exc_value: BaseException | None, traceback: Any) -> bool:
        self._note("close")
        return True

    async def tools(self, ctx: RunAgentInput) -> Sequence[Tool]:
        """Offer the weather where the state says so."""
        await anyio.lowlevel.checkpoint()
        self._note("tools")
        assert not ctx.tools
        state: Any = ctx.state
        is_offered = state.get("is_online", True)
        return [WEATHER.model_copy(update={"name": self.name})] if is_offered else []

    async def call(self, call: BoundCall, ctx: ToolContext) -> object:
        """Say the weather."""
        self.notes.append((call.name, dict(call.arguments), ctx.tool_call_id))
        self._note("call")
        return {"sun": True}

    def approval(self, call: BoundCall) -> Any:
        """Ask as it is set."""
        self._note("approval")
        return self.rule

    def _note(self, what: str) -> None:
        if (error := self.fails.get(what)) is not None:
            raise error
        self.notes.append(f"{what} {self.name}" if what in {"open", "close"} else what)


@every_kind_of_verb
@pytest.mark.requirement("SEC-2", "SEC-4")
def test_a_toolset_is_open_from_before_the_first_run_until_after_the_last(verb: Verb) -> None:
    weather = Weather()
    agent = ScriptedAgent(turn(tool_call("weather", {"city": "Oslo"}, tool_call_id="c1")), DONE, tools=[weather])
    assert verb(agent, "Hi").error is None
    assert results_sent(agent)[1] == [("c1", '{"sun":true}', None)]
    assert weather.notes == [
        "open weather",
        "tools",
        "approval",
        ("weather", {"city": "Oslo", "days": 3}, "c1"),
        "call",
        "tools",
        "close weather",
    ]


@every_kind_of_verb
def test_functions_definitions_and_toolsets_are_offered_in_their_order(verb: Verb) -> None:
    look, listen = Ran().tools
    agent = ScriptedAgent(
        turn(tool_call("weather", {"city": "Oslo"}, tool_call_id="c1"), tool_call("look", tool_call_id="c2")),
        DONE,
        tools=[look, Weather(), ASK_USER, FunctionToolset([listen])],
    )
    assert verb(agent, "Hi").error is None
    assert [tools_sent(asked) for asked in agent.inputs] == [["look", "weather", "ask_user", "listen"]] * 2
    assert results_sent(agent)[1] == [("c1", '{"sun":true}', None), ("c2", "seen map", None)]


@every_kind_of_verb
def test_a_toolset_may_be_all_the_tools_of_an_agent_or_of_a_call(verb: Verb) -> None:
    class Station(Weather):
        def __call__(self) -> str:
            return self.name

    agent = ScriptedAgent(DONE, DONE, DONE, tools=Weather())
    verb(agent, "Hi")
    verb(agent, "Hi", tools=Weather("storms"))
    verb(agent, "Hi", tools=Station("tides"))
    assert [tools_sent(asked) for asked in agent.inputs] == [["weather"], ["storms"], ["tides"]]


@every_kind_of_verb
def test_a_toolset_lists_its_tools_for_each_run_by_its_state(verb: Verb) -> None:
    @tool
    def go_online() -> None:
        agent.set_state({"is_online": True})

    agent = ScriptedAgent(
        turn(tool_call("go_online")), DONE, tools=[Weather(), go_online], initial_state={"is_online": False}
    )
    assert verb(agent, "Hi").error is None
    assert [tools_sent(asked) for asked in agent.inputs] == [["go_online"], ["weather", "go_online"]]


@every_kind_of_verb
def test_a_toolset_that_cannot_be_opened_ends_the_call_before_anything_is_sent(verb: Verb) -> None:
    notes: list[Any] = []
    first, second, third = Weather("first", notes), Weather("second", notes), Weather("third", notes)
    second.fails["open"] = OSError("no route")
    agent = ScriptedAgent(DONE, tools=[first, second, third])
    error = verb(agent, "Hi").error
    assert isinstance(error, ToolsetError)
    assert str(error) == "the toolset <Weather second> could not be opened, so nothing was sent: OSError: no route"
    assert error.__cause__ is second.fails["open"]
    assert notes == ["open first", "close first"]
    assert (agent.inputs, agent.messages, agent.is_running) == ([], [], False)
    second.fails.clear()
    assert verb(agent, "Hi").error is None
    assert notes[-3:] == ["close third", "close second", "close first"]


def test_the_first_cause_in_a_group_is_named() -> None:
    weather = Weather()
    weather.fails["open"] = BaseExceptionGroup("unhandled errors in a TaskGroup", [OSError("no route")])
    with pytest.raises(ToolsetError, match=r"nothing was sent: OSError: no route$"):
        ScriptedAgent(DONE, tools=[weather]).run_agent_sync("Hi")


@every_result_verb
@pytest.mark.parametrize("moment", ["open weather", "tools"])
def test_a_call_is_aborted_while_its_toolset_is_opened(verb: Verb, moment: str) -> None:
    class Slow(Weather):
        def _note(self, what: str) -> None:
            super()._note(what)
            if self.notes[-1] == moment:
                agent.abort_run()

    weather = Slow()
    agent = ScriptedAgent(DONE, tools=weather)
    ending = verb(agent, "Hi")
    assert ending.result is not None
    assert ending.result.aborted
    assert weather.notes[-1] == "close weather"
    assert (agent.inputs, agent.messages, agent.is_running) == ([], [], False)


@every_kind_of_verb
def test_a_toolset_that_cannot_list_its_tools_ends_the_call(verb: Verb) -> None:
    weather = Weather()
    weather.fails["tools"] = OSError("lost")
    agent = ScriptedAgent(DONE, tools=[weather])
    error = verb(agent, "Hi").error
    assert isinstance(error, ToolsetError)
    assert (
        str(error) == "the toolset <Weather weather> could not list its tools, so the run was not sent: OSError: lost"
    )
    assert (weather.notes, agent.inputs, agent.is_running) == (["open weather", "close weather"], [], False)


@every_kind_of_verb
def test_a_toolset_that_cannot_be_closed_changes_nothing_but_the_log(
    verb: Verb, caplog: pytest.LogCaptureFixture
) -> None:
    weather = Weather()
    weather.fails["close"] = OSError("lost")
    assert verb(ScriptedAgent(DONE, tools=[weather]), "Hi").error is None
    assert "a toolset failed while it was closed: OSError" in caplog.messages


@pytest.mark.anyio
async def test_a_toolset_swallows_no_error_of_a_call() -> None:
    with pytest.raises(KeyError):
        async with CallTools([Weather()]):
            raise KeyError("in the call")


@pytest.mark.anyio
async def test_a_toolset_that_cancelled_the_call_says_why() -> None:
    class Lost(Weather):
        async def __aexit__(self, exc_type: Any, exc_value: BaseException | None, traceback: Any) -> bool:
            raise ExceptionGroup("unhandled errors in a TaskGroup", [OSError("lost")])

    with pytest.raises(ToolsetError, match=r"^a toolset failed during the call: OSError: lost$"):
        async with CallTools(Lost()):
            raise asyncio.CancelledError


def choose_weather(asked: RunAgentInput) -> Any:
    return [Weather()]


@tool
def look(city: str) -> str:
    """Look."""
    return city


class Shop:
    @tool
    def order(self, item: str) -> str:
        """Order."""
        return item


TOOLS = "tools= takes @tool functions and ag_ui.core.Tool definitions"
OR_FUNCTION = "or a plain function that returns one"
REFUSED: dict[str, tuple[Any, str]] = {
    "two tools of one name": ([Weather(), Weather()], "two tools are named 'weather'"),
    "two functions of one name": (FunctionToolset([Ran().tools[0]] * 2), "two tools are named 'look'"),
    "a toolset that was chosen": (choose_weather, "tools= takes @tool functions"),
    "a toolset class": ([Weather], f"{TOOLS}, not {Weather!r}; give an instance of it, such as Weather()"),
    "a toolset class by itself": (Weather, f"tools= takes a list of tools, {OR_FUNCTION}, not {Weather!r}"),
}


@pytest.mark.parametrize(("tools", "why"), REFUSED.values(), ids=list(REFUSED))
@every_kind_of_verb
def test_what_cannot_be_offered_is_refused_before_anything_is_sent(verb: Verb, tools: Any, why: str) -> None:
    agent = ScriptedAgent(DONE)
    error = verb(agent, "Hi", tools=tools).error
    assert isinstance(error, UsageError)
    assert str(error).startswith(why)
    assert (agent.inputs, agent.messages, agent.is_running) == ([], [], False)


NO_TOOLS: dict[str, tuple[Any, str]] = {
    "a number": (3, f"tools= takes a list of tools, {OR_FUNCTION}, not 3"),
    "a name": ("look", f"tools= takes a list of tools, {OR_FUNCTION}, not 'look'"),
    "tools by name": ({"look": look}, f"tools= takes a list of tools, {OR_FUNCTION}, not {{'look': "),
    "a tool by itself": (look, f"tools= takes a list of tools, {OR_FUNCTION}, not <FunctionTool look>"),
    "None in a list": ([look, None], f"{TOOLS}, not None"),
    "a name in a list": (["look"], f"{TOOLS}, not 'look'"),
    "a function": ([print], f"{TOOLS}, not <built-in function print>; put @tool before the function, or give tool("),
    "a method": ([Shop.order], "'order' is a method; offer it with its instance"),
    "an agent": ([ScriptedAgent(DONE)], f"{TOOLS}, not ScriptedAgent("),
    "a toolset class": REFUSED["a toolset class"],
    "a toolset class by itself": REFUSED["a toolset class by itself"],
}


@pytest.mark.parametrize(("tools", "why"), NO_TOOLS.values(), ids=list(NO_TOOLS))
def test_what_is_no_tool_is_refused_where_the_agent_is_made(tools: Any, why: str) -> None:
    with pytest.raises(UsageError) as refused:
        ScriptedAgent(DONE, tools=tools)
    assert str(refused.value).startswith(why)


def test_an_agent_among_the_tools_is_told_how_it_becomes_one() -> None:
    with pytest.raises(UsageError, match=r'an agent becomes one with agent\.as_tool\("name", "description"\)$'):
        ScriptedAgent(DONE, tools=[ScriptedAgent(DONE)])  # type: ignore[list-item]


def test_a_toolset_that_lists_something_else_is_refused() -> None:
    class Broken(Weather):
        async def tools(self, ctx: RunAgentInput) -> Any:
            """List names."""
            return ["weather"]

    with pytest.raises(UsageError, match=r"<Weather weather> lists \['weather'\], and not all"):
        ScriptedAgent(DONE, tools=[Broken()]).run_agent_sync("Hi")


# --- calls


def is_about_oslo(request: ApprovalRequest) -> bool:
    return bool(request.arguments["city"] == "Oslo")


UNFIT: dict[str, tuple[str, str]] = {
    "broken": ('{"city": ', "the arguments are not JSON: "),
    "missing": ("", 'the arguments do not fit: needs "city"'),
    "too large": ('{"city": "Oslo", "days": 30}', "the arguments do not fit: days: maximum is 10"),
    "unknown": ('{"city": "Oslo", "unit": "k"}', "the arguments do not fit: unit: the schema has no such member"),
    "no object": ("[]", "the arguments are an array; send one JSON object"),
}


@pytest.mark.parametrize(("sent", "why"), UNFIT.values(), ids=list(UNFIT))
@pytest.mark.requirement("SEC-2", "TOOL-2", "TOOL-10")
def test_arguments_are_checked_by_the_json_schema(sent: str, why: str) -> None:
    weather = Weather()
    agent = ScriptedAgent(turn(tool_call("weather", sent, tool_call_id="c1")), DONE, tools=[weather])
    assert agent.run_agent_sync("Hi").text == "Done."
    [(_, content, error)] = results_sent(agent)[1]
    assert content == error
    assert str(error).startswith(f"tool call 'c1': {why}")
    assert "call" not in weather.notes


@every_result_verb
@pytest.mark.requirement("SEC-3")
def test_a_toolset_says_which_calls_wait_for_approval(verb: Verb) -> None:
    requests: list[ApprovalRequest] = []

    def approve(request: ApprovalRequest) -> Approve:
        requests.append(request)
        return Approve({"city": "Bergen"})

    weather = Weather()
    weather.rule = is_about_oslo
    agent = ScriptedAgent(turn(tool_call("weather", {"city": "Oslo"})), DONE, tools=[weather], approve=approve)
    result = verb(agent, "Hi").result
    assert result is not None
    assert [(each.tool, each.arguments) for each in requests] == [(WEATHER, {"city": "Oslo", "days": 3})]
    assert result.tool_executions[0].arguments == {"city": "Bergen", "days": 3}
    assert weather.notes[3:5] == [("weather", {"city": "Bergen", "days": 3}, "call-1"), "call"]


@pytest.mark.requirement("SEC-3")
def test_a_rule_that_fails_denies(caplog: pytest.LogCaptureFixture) -> None:
    weather = Weather()
    weather.fails["approval"] = KeyError("rule")
    agent = ScriptedAgent(turn(tool_call("weather", {"city": "Oslo"})), DONE, tools=[weather])
    result = agent.run_agent_sync("Hi")
    assert [call.id for call in result.pending_tool_calls] == ["call-1"]
    assert "the approval rule of weather failed, so the call waits for approval: KeyError" in caplog.messages


@pytest.mark.requirement("SEC-3")
def test_an_approval_executes_the_very_call_that_was_shown() -> None:
    seen: list[BoundCall] = []

    class Binding(Weather):
        def bind(self, tool: Tool, tool_call_id: str, arguments: str | Mapping[str, Any]) -> BoundCall:
            """Keep the call."""
            call = super().bind(tool, tool_call_id, arguments)
            seen.append(call)
            return call

        async def call(self, call: BoundCall, ctx: ToolContext) -> object:
            """Keep the call."""
            seen.append(call)
            return None

    weather = Binding()
    weather.rule = "always"
    agent = ScriptedAgent(
        turn(tool_call("weather", {"city": "Oslo"})), DONE, tools=[weather], approve=lambda request: True
    )
    agent.run_agent_sync("Hi")
    bound, called = seen
    assert bound is called


@pytest.mark.requirement("TOOL-10")
def test_errors_for_the_agent_and_all_others_are_told_apart(caplog: pytest.LogCaptureFixture) -> None:
    weather = Weather()
    for error, why in ((ToolError("no such city"), "no such city"), (OSError("secret"), FAILED)):
        weather.fails["call"] = error
        agent = ScriptedAgent(turn(tool_call("weather", {"city": "Oslo"})), DONE, tools=[weather])
        result = agent.run_agent_sync("Hi")
        assert result.tool_executions[0].error == type(error).__name__
        assert result.messages[-2].content == why
    assert [record.getMessage() for record in caplog.records] == ["tool weather failed in call 'call-1': OSError"]
    assert "secret" not in caplog.text


@every_kind_of_verb
def test_a_toolset_limits_the_time_of_its_calls(verb: Verb) -> None:
    class Slow(Weather):
        async def call(self, call: BoundCall, ctx: ToolContext) -> object:
            """Take too long."""
            await anyio.sleep_forever()
            return "late"

        def timeout(self, call: BoundCall) -> float:
            """Be impatient."""
            return 0.01

    agent = ScriptedAgent(
        turn(tool_call("weather", {"city": "Oslo"})), DONE, tools=[Slow()], tool_limits=ToolLimits(timeout=LIMIT)
    )
    assert verb(agent, "Hi").error is None
    late = "The tool took longer than 0.01 seconds and was given up; its effect is unknown."
    assert results_sent(agent)[1] == [("call-1", late, late)]


@every_kind_of_verb
def test_a_call_is_approved_later_by_another_run(verb: Verb) -> None:
    weather = Weather()
    weather.rule = "always"
    agent = ScriptedAgent(turn(tool_call("weather", {"city": "Oslo"}, tool_call_id="c1")), DONE, tools=[weather])
    verb(agent, "Hi")
    refused = verb(agent, tool_results={"c1": Approve({"city": 5})}).error
    assert isinstance(refused, UsageError)
    assert 'city: must be of type "string"' in str(refused)
    assert verb(agent, tool_results={"c1": Approve()}).error is None
    assert results_sent(agent)[1] == [("c1", '{"sun":true}', None)]


# --- tools that are known by their schema


def say(**arguments: Any) -> object:
    return arguments


async def say_async(**arguments: Any) -> object:
    await anyio.lowlevel.checkpoint()
    return arguments


def say_with_context(ctx: ToolContext, **arguments: Any) -> object:
    return {**arguments, "for": ctx.tool_call_id}


def say_by_name(city: str, days: int) -> str:
    return f"{city} {days}"


SAID = '{"city":"Oslo","days":3}'
SAYING: dict[str, tuple[Callable[..., Any], str]] = {
    "sync": (say, SAID),
    "async": (say_async, SAID),
    "with the context": (say_with_context, '{"city":"Oslo","days":3,"for":"c1"}'),
    "by name": (say_by_name, "Oslo 3"),
}


@pytest.mark.parametrize(("function", "said"), SAYING.values(), ids=list(SAYING))
@every_kind_of_verb
@pytest.mark.requirement("SEC-2")
def test_a_tool_known_by_its_schema_takes_its_arguments_by_name(
    verb: Verb, function: Callable[..., Any], said: str
) -> None:
    weather = FunctionTool.from_schema("weather", function, parameters=CITY, description="Says the weather.")
    assert weather.definition == WEATHER
    calls = [tool_call("weather", each, tool_call_id=f"c{n}") for n, each in enumerate([{"city": "Oslo"}, {}], 1)]
    agent = ScriptedAgent(turn(*calls), DONE, tools=[weather])
    assert verb(agent, "Hi").error is None
    why = "tool call 'c2': the arguments do not fit: needs \"city\""
    assert results_sent(agent)[1] == [("c1", said, None), ("c2", why, why)]


def test_a_tool_known_by_its_schema_has_the_options_of_any_tool() -> None:
    weather = FunctionTool.from_schema("weather", say, parameters=CITY, approval="always", timeout=5)
    assert (weather.name, weather.description, weather.approval, weather.timeout) == ("weather", "", "always", 5)
    refused: dict[str, Any] = {"timeout": 0, "approval": "maybe"}
    for name, value in refused.items():
        options: Any = {name: value}
        with pytest.raises(UsageError, match=f"{name} of 'weather'"):
            FunctionTool.from_schema("weather", say, parameters=CITY, **options)
    with pytest.raises(UsageError, match="cannot be a tool's name"):
        FunctionTool.from_schema("get weather", say, parameters=CITY)


def test_content_parts_of_a_toolset_stay_parts() -> None:
    class Seeing(Weather):
        async def call(self, call: BoundCall, ctx: ToolContext) -> object:
            """Show it."""
            return [TextPart(text="sun")]

    agent = ScriptedAgent(turn(tool_call("weather", {"city": "Oslo"})), DONE, tools=[Seeing()])
    agent.run_agent_sync("Hi")
    assert results_sent(agent)[1] == [("call-1", [TextPart(text="sun")], None)]


def test_a_toolset_error_is_one_of_the_packages() -> None:
    assert issubclass(ToolsetError, AGUIError)
    assert not issubclass(ToolsetError, UsageError)


class Named(Weather):
    """A service with a longer name for its tool."""

    def __init__(self, place: str) -> None:
        super().__init__()
        self._place = place

    def qualified(self, tool: Tool) -> Tool:
        return tool.model_copy(update={"name": f"{self._place}__{tool.name}"})


@tool
def weather(city: str) -> str:
    """Look out of the window."""
    return f"rain in {city}"


@every_result_verb
def test_tools_of_one_name_are_offered_under_longer_names_where_their_toolsets_have_some(verb: Verb) -> None:
    north, south = Named("north"), Named("south")
    call = turn(tool_call("south__weather", {"city": "Oslo"}), tool_call("weather", {"city": "Bergen"}))
    agent = ScriptedAgent(call, DONE, tools=[north, weather, south])
    assert verb(agent, "Hi").error is None
    assert tools_sent(agent.inputs[0]) == ["north__weather", "weather", "south__weather"]
    [[oslo, bergen]] = results_sent(agent)[1:]
    assert oslo[2] is None
    assert bergen[1:] == ("rain in Bergen", None)
    assert not [note for note in north.notes if "call" in str(note)]
    assert [note for note in south.notes if "call" in str(note)]


def test_a_tool_alone_keeps_its_name() -> None:
    agent = ScriptedAgent(DONE, tools=[Named("north")])
    agent.run_agent_sync("Hi")
    assert tools_sent(agent.inputs[0]) == ["weather"]


class Clock(Toolset):
    """Overrides no more than it must."""

    async def tools(self, ctx: RunAgentInput) -> Sequence[Tool]:
        return [Tool(name="now", description="Says the time.")]

    async def call(self, call: BoundCall, ctx: ToolContext) -> object:
        return "noon"


@every_kind_of_verb
def test_the_calls_of_a_toolset_without_rules_wait_for_nobody(verb: Verb) -> None:
    agent = ScriptedAgent(turn(tool_call("now")), DONE, tools=Clock())
    assert verb(agent, "Hi").error is None
    assert results_sent(agent) == [[], [("call-1", "noon", None)]]


@every_kind_of_verb
def test_a_toolset_that_was_set_up_wrongly_says_so_itself(verb: Verb) -> None:
    class Unset(Clock):
        async def tools(self, ctx: RunAgentInput) -> Sequence[Tool]:
            raise UsageError("give the toolset its address")

    error = verb(ScriptedAgent(DONE, tools=Unset()), "Hi").error
    assert isinstance(error, UsageError)
    assert str(error) == "give the toolset its address"
