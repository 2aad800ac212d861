"""A function as a tool: it stays callable, has a name an agent can use, and methods are tools of their instances."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from agui_client import ApprovalRequest, FunctionTool, ToolContext, UsageError, tool
from support.tool_calls import executed


@tool
def add(a: int, b: int = 2) -> int:
    """Add."""
    return a + b


@tool(approval="always", timeout=5)
async def fetch(ctx: ToolContext, url: str) -> str:
    return f"{url} for {ctx.thread_id}"


class Shop:
    def __init__(self, name: str) -> None:
        self.name = name

    @tool(name="place_order", approval="always")
    def order(self, ctx: ToolContext, item: str) -> str:
        """Order something."""
        return f"{item} from {self.name} in {ctx.run_id}"

    @staticmethod
    def hours(day: str) -> str:
        return f"{day}: 9 to 5"

    @classmethod
    def open(cls, name: str) -> str:
        return cls(name).name


def context() -> ToolContext:
    return ToolContext(tool_call_id="c1", name="any", thread_id="t1", run_id="r1")


def test_a_tool_is_still_the_function() -> None:
    assert (add(1), add(1, b=1)) == (3, 2)
    named: Any = add
    assert (named.__name__, named.__doc__, named.__module__) == ("add", "Add.", __name__)
    assert str(inspect.signature(add)) == "(a: 'int', b: 'int' = 2) -> 'int'"
    assert repr(add) == "<FunctionTool add>"


@pytest.mark.anyio
async def test_called_from_python_a_tool_takes_its_context_as_any_argument() -> None:
    assert await fetch(context(), "http://a") == "http://a for t1"


def test_options_are_kept_for_whoever_executes() -> None:
    def at_night(request: ApprovalRequest) -> bool:
        return request.name == "x"

    assert (add.approval, add.timeout) == ("never", None)
    assert (fetch.approval, fetch.timeout) == ("always", 5)
    assert tool(approval=at_night)(add.function).approval is at_night


def test_a_tool_can_have_another_name_for_the_agent() -> None:
    assert tool(add.function, name="sum-up").name == "sum-up"


@pytest.mark.anyio
async def test_a_method_is_a_tool_of_its_instance() -> None:
    order = Shop("Ada's").order
    assert isinstance(order, FunctionTool)
    assert order(context(), "tea") == "tea from Ada's in r1"
    assert await executed(order, context(), '{"item": "tea"}') == "tea from Ada's in r1"
    assert (order.definition, order.approval) == (Shop.order.definition, "always")
    assert order.definition.name == "place_order"
    assert (Shop.order.is_method, order.is_method, Shop("a").order.is_method) == (True, False, False)
    assert str(inspect.signature(order)) == "(ctx: 'ToolContext', item: 'str') -> 'str'"


def test_a_method_of_no_instance_is_called_like_any_method() -> None:
    assert Shop.order(Shop("Bob's"), context(), "tea") == "tea from Bob's in r1"


def test_static_methods_and_bound_methods_are_functions() -> None:
    assert tool(Shop.hours)("Monday") == "Monday: 9 to 5"
    opening = tool(Shop.open)
    assert opening("Ada's") == "Ada's"
    assert opening.bind('{"name": "Bob\'s"}').values == {"name": "Bob's"}


def test_a_tool_kept_on_a_class_is_no_method_of_it() -> None:
    class Box:
        tool: Any = add

    assert Box().tool is add


def test_a_decorated_function_is_judged_by_what_it_wraps() -> None:
    def doubling(function: Any) -> Any:
        @functools.wraps(function)
        def doubled(*args: Any, **kwargs: Any) -> Any:
            return 2 * function(*args, **kwargs)

        return doubled

    twice = tool(doubling(add.function))
    assert twice.definition.parameters == add.definition.parameters
    assert twice(1) == 6


@pytest.mark.parametrize("name", ["", "get weather", "wetter_für", "a" * 65, "a\n", "a.b"])
def test_a_name_that_models_refuse_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="1 to 64 letters"):
        tool(name=name)(add.function)


def test_a_lambda_needs_a_name() -> None:
    with pytest.raises(UsageError, match="'<lambda>' cannot be a tool's name"):
        tool(lambda: 1)
    assert tool(lambda: 1, name="one").bind("").values == {}


async def yielding_slowly() -> AsyncIterator[int]:
    yield 1


def yielding() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize("function", [yielding, yielding_slowly])
def test_a_generator_is_refused(function: Any) -> None:
    with pytest.raises(
        UsageError, match=r"it yields, and a tool returns its result; progress goes through ctx\.report"
    ):
        tool(function)


@pytest.mark.parametrize("function", [len, Shop, functools.partial(add, 1), add, staticmethod(add.function)])
def test_only_functions_and_bound_methods_become_tools(function: Any) -> None:
    with pytest.raises(UsageError, match=r"a tool is a function or a bound method, not a .*tool\(Shop\.method\)"):
        tool(function)


@pytest.mark.parametrize("approval", ["sometimes", "", None, True, ["always"]])
def test_an_approval_that_says_nothing_is_refused(approval: Any) -> None:
    with pytest.raises(UsageError, match="approval of 'add' is"):
        tool(add.function, approval=approval)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), "5", True])
def test_a_time_out_is_longer_than_nothing(timeout: Any) -> None:
    with pytest.raises(UsageError, match="timeout of 'add' is a number of seconds above zero, or None"):
        tool(add.function, timeout=timeout)


def test_a_tool_of_a_module_is_pickled_by_its_name_as_functions_are() -> None:
    assert pickle.loads(pickle.dumps(fetch)) is fetch
    assert copy.deepcopy([fetch]) == [fetch]

    @tool
    def local() -> None: ...

    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(local)
