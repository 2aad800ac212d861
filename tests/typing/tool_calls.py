"""A user's file: functions as tools keep their types under mypy and pyright strict; never run."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Annotated, Any, Literal, Self, assert_type

from ag_ui.core import DocumentPart, ImagePart, Interrupt, RunAgentInput, Tool
from pydantic import BaseModel, Field

from agui_client import (
    ApprovalRequest,
    Approve,
    Cancel,
    Deny,
    EventLog,
    FunctionTool,
    FunctionToolset,
    HookContext,
    HttpAgent,
    People,
    Resolve,
    RetryPolicy,
    RunObserver,
    RunResult,
    StreamedToolCall,
    ToolContext,
    ToolError,
    ToolExecution,
    ToolLimits,
    Toolset,
    answer_model,
    attach,
    tool,
)
from agui_client.types import Attempt, BoundCall, RunScope, ToolCalls


class Order(BaseModel):
    item: str


@tool
def get_weather(city: str, units: Literal["c", "f"] = "c", *, days: Annotated[int, Field(ge=1)] = 1) -> str:
    """Current weather for a city."""
    if not city:
        raise ToolError("which city?")
    return f"18 degrees {units} for {days} days"


@tool(name="delete-file", description="Deletes a file.", approval="always", timeout=10)
async def delete_file(ctx: ToolContext, path: str) -> dict[str, bool]:
    ctx.report({"path": path})
    return {"done": not ctx.is_cancelled}


def is_dear(request: ApprovalRequest) -> bool:
    return bool(request.arguments["amount"] > 100)


async def is_dear_today(request: ApprovalRequest) -> bool:
    return is_dear(request)


@tool(approval=is_dear)
def pay(amount: float) -> None: ...


@tool(approval=is_dear_today)
def pay_today(amount: float) -> None: ...


@tool()
def now() -> str:
    return "now"


class Shop:
    @tool
    def order(self, order: Order, *, count: int = 1) -> Order:
        return order

    @tool(approval="never")
    async def cancel(self, ctx: ToolContext, item: str) -> Self:
        return self

    def plain(self, item: str) -> int:
        return len(item)

    @staticmethod
    def hours(day: str) -> str:
        return day

    @classmethod
    def open(cls, name: str) -> Self:
        return cls()


def calling() -> None:
    assert_type(get_weather("Oslo"), str)
    assert_type(get_weather("Oslo", "f", days=2), str)
    assert_type(now(), str)
    assert_type(pay(1), None)
    get_weather("Oslo", "k")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    get_weather()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    weather: Callable[[str], str] = get_weather
    weather("Oslo")


async def awaiting(ctx: ToolContext) -> None:
    deleting: Callable[[ToolContext, str], Coroutine[Any, Any, dict[str, bool]]] = delete_file
    assert_type(await deleting(ctx, "a"), dict[str, bool])
    assert_type(await delete_file(ctx, path="a"), dict[str, bool])
    assert_type(await Shop().cancel(ctx, "tea"), Shop)


def methods(shop: Shop) -> None:
    assert_type(shop.order(Order(item="tea"), count=2), Order)
    assert_type(Shop.order(shop, Order(item="tea")), Order)
    assert_type(tool(Shop.hours)("Monday"), str)
    assert_type(tool(Shop.open)("Ada's"), Shop)
    assert_type(tool(shop.plain, approval="always")("tea"), int)
    shop.order("tea")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def looking(shop: Shop) -> None:
    offered: list[FunctionTool[..., Any]] = [get_weather, delete_file, pay, pay_today, shop.order, shop.cancel]
    for each in offered:
        assert_type(each.definition, Tool)
        assert_type(each.name, str)
        assert_type(each.description, str)
        assert_type(each.timeout, float | None)
    assert_type(get_weather.function("Oslo"), str)


def refused() -> None:
    tool(get_weather.function, approval="sometimes")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]


def giving_bytes(photo: bytes) -> list[object]:
    part = attach(photo, "image/png")
    return [part, isinstance(part, ImagePart | DocumentPart)]


# --- in an agent

URL = "http://localhost:8000/agent"


async def approve(request: ApprovalRequest) -> bool | Approve | Deny:
    if request.name == "pay":
        return Approve(arguments={**request.arguments, "amount": 1})
    return Deny("not today")


def approve_by_hand(request: ApprovalRequest) -> bool:
    return input(f"{request.tool.description} {request.arguments}? ") == "y"


async def answer(interrupt: Interrupt) -> Resolve | Cancel | None:
    model = answer_model(interrupt)
    return None if model is None else Resolve(model.model_validate_json("{}"))


class Progress(RunObserver):
    def on_tool_execution(self, run: RunScope, execution: ToolExecution) -> None:
        assert_type(execution.name, str)


def choose(asked: RunAgentInput) -> list[FunctionTool[..., Any] | Tool]:
    return [get_weather, pay] if asked.state else [get_weather]


class Library(Toolset):
    async def __aenter__(self) -> Self:
        return self

    async def tools(self, ctx: RunAgentInput) -> list[Tool]:
        return [Tool(name="lend", description="", parameters={})] if ctx.state else []

    async def call(self, call: BoundCall, ctx: ToolContext) -> object:
        assert_type(call.arguments, Mapping[str, Any])
        return call.arguments["book"]

    def approval(self, call: BoundCall) -> Literal["never", "always"]:
        return "always" if call.name == "lend" else "never"

    def timeout(self, call: BoundCall) -> float:
        return 5


def lending() -> HttpAgent:
    lend = FunctionTool.from_schema(
        "lend", Shop.hours, parameters={"type": "object"}, description="", approval="always"
    )
    assert_type(lend, FunctionTool[..., Any])
    HttpAgent(URL, tools=Library())
    HttpAgent(URL, tools=[Library, lend])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    return HttpAgent(URL, tools=[lend, Library(), FunctionToolset([get_weather])])


async def loop() -> RunResult:
    agent = HttpAgent(URL, tools=[get_weather, delete_file, Shop().order], approve=approve, answer=answer)

    @agent.tool
    def here(place: str) -> str:
        return place

    @agent.tool(approval="always", timeout=5)
    async def there(place: str) -> str:
        return place

    assert_type(here("Oslo"), str)
    assert_type(await there("Oslo"), str)
    agent.add_observer(Progress())
    agent.subscribe(EventLog())
    async with agent.stream("Weather?") as run:
        async for call in run.tool_call_stream:
            assert_type(call, StreamedToolCall)
            assert_type(call.arguments_text, str)
            assert_type(run.tool_calls, ToolCalls)
        assert_type(run.tool_executions, list[ToolExecution])
    result = await agent.run_agent("Weather?", tools=choose)
    answers = {call.id: Approve() for call in result.pending_tool_calls}
    result = await agent.run_agent(tool_results={**answers, "call-1": Deny("no"), "call-2": ToolError("broken")})
    return await agent.run_agent(resume={each.id: Approve() for each in result.interrupts})


# --- over HTTP


async def fresh_headers() -> dict[str, str]:
    return {"Authorization": "Bearer ..."}


async def stop(context: HookContext) -> None:
    assert_type(context.run_id, str)


async def reaching() -> None:
    policy = RetryPolicy(connect=3, status=2)
    agent = HttpAgent(
        URL,
        headers=fresh_headers,
        on_unauthorized=fresh_headers,
        retry=policy,
        on_abort=stop,
        connect_url="connect",
        approve=approve_by_hand,
        tool_limits=ToolLimits(rounds=3, seconds=60, at_once=2),
        people=People(wait=30, fallback="leave"),
    )
    result = await agent.connect_agent(forwarded_props={"cursor": 7})
    assert_type(result.attempts, list[Attempt])
    async with agent.stream_connect(timeout=5) as run:
        async for _ in run:
            pass


@tool
async def ask_for_account(ctx: ToolContext) -> str:
    assert_type(await ctx.ask("Which account?"), str)
    assert_type(await ctx.ask("How many?", int), int)
    assert_type(await ctx.ask("Which?", {"type": "string"}), Any)
    return await ctx.ask("Which account?", timeout=5)


@tool
def ask_in_thread(ctx: ToolContext) -> int:
    return ctx.ask_sync("How many?", int)
