"""An assertion about streams, for the tests of agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agui_client.checking.check import StreamSource, validate

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput


def assert_conforms(
    events: StreamSource, *, input: RunAgentInput | None = None, strict: bool = False, allow_warnings: bool = False
) -> None:
    """Fail if a stream breaks the protocol, with each rule, event and remedy.

    Args:
        events: What the agent sent, as `agui_client.validate` takes it: events, the body of a response, a file.
        input: The input that it answers, as for `validate`.
        strict: Whether ids that do not match are errors, as for `validate`.
        allow_warnings: Whether faults are allowed that clients only warn of.

    Raises:
        AssertionError: There is a fault.
    """
    __tracebackhide__ = True  # pytest shows the line of the test instead
    faults = validate(events, input=input, strict=strict)
    found = [fault for fault in faults if fault.severity == "error" or not allow_warnings]
    if found:
        raise AssertionError("\n".join(["the stream breaks the protocol", *map(str, found)]))
