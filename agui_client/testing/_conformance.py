"""An assertion about streams, for the tests of agents."""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import TYPE_CHECKING

from agui_client._checking.check import StreamSource, validate
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput


def assert_conforms(
    events: StreamSource, *, input: RunAgentInput | None = None, strict: bool = False, allow_warnings: bool = False
) -> None:
    """Fail if a stream breaks the protocol, with each rule, event and remedy.

    Args:
        events: What the agent sent, as `agui_client.validate` takes it: events, the body of a response, a file.
        input: The input of its run, as for `validate`.
        strict: Whether ids that do not match are errors, as for `validate`.
        allow_warnings: Whether faults are allowed that clients only warn of.

    Raises:
        AssertionError: There is a fault.
        UsageError: The events are still to come.
    """
    __tracebackhide__ = True  # pytest shows the line of the test instead
    if isinstance(events, AsyncIterable):  # a forgotten `await` would let every test pass
        raise UsageError("assert_conforms() takes a list of events: [event async for event in agent.run(input)]")
    faults = validate(events, input=input, strict=strict)
    failing = ("error",) if allow_warnings else ("error", "warning")
    found = [fault for fault in faults if fault.severity in failing]
    if found:
        raise AssertionError("\n".join(["the stream breaks the protocol", *map(str, found)]))
