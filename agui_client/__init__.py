"""The Python client for AG-UI 1.0, the protocol between agents and the applications people use.

Everything public is here, in `agui_client.types` (aliases and small records) or in the module of a feature, which
docs/reference lists; events, messages and tools are `ag_ui.core`'s. A name is loaded when it is first needed, so that
a command or a plugin that only asks for one of them does not wait for all.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from agui_client._core import plugs as _plugs
from agui_client._version import __version__ as __version__

if TYPE_CHECKING:
    from agui_client._checking.check import validate
    from agui_client._checking.stream_faults import StreamFault
    from agui_client._core.agent.agent import AbstractAgent
    from agui_client._core.agent.function_agent import FunctionAgent
    from agui_client._core.agent.http_agent import HttpAgent
    from agui_client._core.conversation.history import Window
    from agui_client._core.conversation.snapshot import ConversationSnapshot
    from agui_client._core.protocol.events import UnrecognizedEvent
    from agui_client._core.protocol.prompts import attach
    from agui_client._core.protocol.reduce import Change, Reducer
    from agui_client._core.protocol.warnings import ProtocolWarning
    from agui_client._core.run.hooks import HookContext, Mutation, Subscriber
    from agui_client._core.run.observers import EventLog, RunObserver
    from agui_client._core.run.result import RunResult
    from agui_client._core.tools.answer_models import answer_model
    from agui_client._core.tools.approval import ApprovalRequest, Approve, Deny
    from agui_client._core.tools.context import ToolContext, ToolExecution
    from agui_client._core.tools.function import FunctionTool, tool
    from agui_client._core.tools.interrupts import Cancel, Resolve
    from agui_client._core.tools.people import People
    from agui_client._core.tools.tool_limits import ToolLimits
    from agui_client._core.tools.toolset import FunctionToolset, Toolset
    from agui_client._core.transport.retry import RetryPolicy
    from agui_client._core.transport.timeouts import Timeouts
    from agui_client._core.verbs.async_run import AgentRun, StreamedToolCall
    from agui_client._core.verbs.sync_run import SyncAgentRun
    from agui_client.errors import (
        AGUIError,
        CannotWaitError,
        ConnectError,
        ConnectTimeoutError,
        DecodeError,
        EventOrderError,
        FirstEventTimeoutError,
        HistoryError,
        HTTPStatusError,
        IdleTimeoutError,
        IncompleteRunError,
        InterruptsNotCoveredError,
        InvalidEventError,
        ParseError,
        ProtocolError,
        RequestExpiredError,
        RequestRepeatedError,
        RunFailedError,
        RunInProgressError,
        RunNotFoundError,
        RunTimeoutError,
        StreamTimeoutError,
        StreamTooLargeError,
        ThreadBusyError,
        ThreadStoreError,
        ThreadStoreUnavailableError,
        ToolArgumentsError,
        ToolError,
        ToolRoundsExceededError,
        ToolsetError,
        TransportError,
        UnexpectedContentTypeError,
        UsageError,
    )

__all__ = [
    "AGUIError",
    "AbstractAgent",
    "AgentRun",
    "ApprovalRequest",
    "Approve",
    "Cancel",
    "CannotWaitError",
    "Change",
    "ConnectError",
    "ConnectTimeoutError",
    "ConversationSnapshot",
    "DecodeError",
    "Deny",
    "EventLog",
    "EventOrderError",
    "FirstEventTimeoutError",
    "FunctionAgent",
    "FunctionTool",
    "FunctionToolset",
    "HTTPStatusError",
    "HistoryError",
    "HookContext",
    "HttpAgent",
    "IdleTimeoutError",
    "IncompleteRunError",
    "InterruptsNotCoveredError",
    "InvalidEventError",
    "Mutation",
    "ParseError",
    "People",
    "ProtocolError",
    "ProtocolWarning",
    "Reducer",
    "RequestExpiredError",
    "RequestRepeatedError",
    "Resolve",
    "RetryPolicy",
    "RunFailedError",
    "RunInProgressError",
    "RunNotFoundError",
    "RunObserver",
    "RunResult",
    "RunTimeoutError",
    "StreamFault",
    "StreamTimeoutError",
    "StreamTooLargeError",
    "StreamedToolCall",
    "Subscriber",
    "SyncAgentRun",
    "ThreadBusyError",
    "ThreadStoreError",
    "ThreadStoreUnavailableError",
    "Timeouts",
    "ToolArgumentsError",
    "ToolContext",
    "ToolError",
    "ToolExecution",
    "ToolLimits",
    "ToolRoundsExceededError",
    "Toolset",
    "ToolsetError",
    "TransportError",
    "UnexpectedContentTypeError",
    "UnrecognizedEvent",
    "UsageError",
    "Window",
    "answer_model",
    "attach",
    "tool",
    "validate",
]

_ELSEWHERE = (
    "asgi",
    "batch",
    "doctor",
    "evaluation",
    "fast",
    "inspector",
    "llm",
    "mcp",
    "notebook",
    "recording",
    "store",
    "teams",
    "terminal",
    "testing",
)
"""The public modules that are searched for a name that is not here."""
_MODULES = {
    "_core.conversation.snapshot": ("ConversationSnapshot",),
    "_core.tools.interrupts": ("Cancel", "Resolve"),
    "_core.tools.answer_models": ("answer_model",),
    "_core.protocol.events": ("UnrecognizedEvent",),
    "_core.protocol.reduce": ("Change", "Reducer"),
    "_core.protocol.warnings": ("ProtocolWarning",),
    "_core.verbs.async_run": ("AgentRun", "StreamedToolCall"),
    "_core.run.hooks": ("HookContext", "Mutation", "Subscriber"),
    "_core.run.observers": ("EventLog", "RunObserver"),
    "_core.run.result": ("RunResult",),
    "_core.verbs.sync_run": ("SyncAgentRun",),
    "_core.tools.approval": ("ApprovalRequest", "Approve", "Deny"),
    "_core.tools.context": ("ToolContext", "ToolExecution"),
    "_core.tools.function": ("FunctionTool", "tool"),
    "_core.tools.people": ("People",),
    "_core.tools.tool_limits": ("ToolLimits",),
    "_core.tools.toolset": ("FunctionToolset", "Toolset"),
    "_core.transport.retry": ("RetryPolicy",),
    "_core.transport.timeouts": ("Timeouts",),
    "_core.agent.agent": ("AbstractAgent",),
    "_checking.check": ("validate",),
    "_checking.stream_faults": ("StreamFault",),
    "_core.agent.function_agent": ("FunctionAgent",),
    "_core.conversation.history": ("Window",),
    "_core.agent.http_agent": ("HttpAgent",),
    "_core.protocol.prompts": ("attach",),
}
"""The names that are loaded at their first use, by their modules; the others of `__all__` are in `errors`."""


def _default_observers() -> list[RunObserver | None]:
    """Return the observers of every call: those of OpenTelemetry if the application has imported that."""
    observers: list[RunObserver | None] = []
    if "opentelemetry.trace" in sys.modules:  # which whatever takes in metrics imports, too
        from agui_client._otel import metric_observer, span_observer

        observers += [span_observer(), metric_observer()]
    from agui_client._core.ground.display import in_notebook

    if in_notebook():
        # A person looks at results there, and asks for the events of a run when it is over.
        from agui_client.recording._kept_calls import memory_recorder

        observers.append(memory_recorder())
    return observers


def _of_otel(name: str, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """Return what calls a function of `_otel` if the application has imported OpenTelemetry, and else another one."""

    def call(*arguments: Any) -> Any:
        """Call the function."""
        is_imported = "opentelemetry.trace" in sys.modules
        function = getattr(import_module("agui_client._otel"), name) if is_imported else otherwise
        return function(*arguments)

    return call


def _displayed(shown: object) -> dict[str, Any]:
    from agui_client.notebook._showing import displayed

    return displayed(shown)


def _page(run: Any) -> bytes:
    from agui_client.notebook._recording_elements import page_of_run

    return page_of_run(run)


def _bar(batch: Any) -> AbstractContextManager[object] | None:
    from agui_client._core.ground.display import in_notebook

    if in_notebook():
        from agui_client.notebook._batch_tables import bar_of as bar_in_cell

        return bar_in_cell(batch)
    if sys.stderr is None or not sys.stderr.isatty():
        return None
    try:
        from agui_client.terminal._batch_bar import bar_of
    except ModuleNotFoundError as error:
        if error.name != "rich":  # the extra `cli` is not installed
            raise
        return None
    return bar_of(batch)


_plugs.DEFAULT_OBSERVERS[:] = [_default_observers]
_plugs.INCOMING_TRACES[:] = [_of_otel("incoming_trace", lambda *about: nullcontext())]
_plugs.METRICS[:] = [_of_otel("measure", lambda *about: None)]
_plugs.TRACE_HEADERS[:] = [_of_otel("trace_headers", dict)]
_plugs.ATTEMPT_SPANS[:] = [_of_otel("StoredAttemptSpan", lambda *about: None)]
_plugs.SENDING[:] = [_of_otel("without_inner_span", nullcontext)]
_plugs.DISPLAYS[:] = [_displayed]
_plugs.PAGES[:] = [_page]
_plugs.BARS[:] = [_bar]


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module(f"{__name__}.errors")
    if name not in __all__:
        _refuse_if_elsewhere(name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = next((module for module, names in _MODULES.items() if name in names), "errors")
    value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


def _refuse_if_elsewhere(name: str) -> None:
    """Say where a name lives that is public in another module of the package.

    Raises:
        ImportError: There is one; of an AttributeError, `from agui_client import ...` would show nothing.
    """
    if name.startswith("_"):
        return
    for module in _ELSEWHERE:
        with suppress(ImportError):  # its extra may not be installed
            if name in getattr(import_module(f"{__name__}.{module}"), "__all__", ()):
                break
    else:
        return
    raise ImportError(f"{name} is in {__name__}.{module}: from {__name__}.{module} import {name}")
