"""The Python client for AG-UI 1.0, the protocol between agents and the applications people use.

Everything public is here, in `agui_client.types` (aliases and small records) or in `agui_client.testing`; events,
messages and tools are `ag_ui.core`'s. Names that only some programs use are loaded when they are first needed.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from agui_client._protocol.reduce import Change, Reducer
from agui_client._run.hooks import HookContext, Mutation, Subscriber
from agui_client._run.logs import EventLog, RunLog
from agui_client._run.observers import DEFAULT_OBSERVERS, RunObserver
from agui_client.agent import AbstractAgent
from agui_client.conversation import ConversationSnapshot
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
    RunFailedError,
    RunInProgressError,
    RunTimeoutError,
    StreamTimeoutError,
    StreamTooLargeError,
    ThreadBusyError,
    ThreadStoreError,
    ToolArgumentsError,
    ToolError,
    ToolRoundsExceededError,
    ToolsetError,
    TransportError,
    UnexpectedContentTypeError,
    UsageError,
)
from agui_client.http_agent import HttpAgent

if TYPE_CHECKING:
    from agui_client._interrupts.answers import Cancel, Resolve
    from agui_client._interrupts.models import answer_model
    from agui_client._protocol.events import UnrecognizedEvent
    from agui_client._protocol.warnings import ProtocolWarning
    from agui_client._run.async_run import AgentRun
    from agui_client._run.result import RunResult
    from agui_client._run.sync_run import SyncAgentRun
    from agui_client._run.tool_calls import StreamedToolCall
    from agui_client._tools.approval import ApprovalRequest, Approve, Deny
    from agui_client._tools.context import ToolContext, ToolExecution
    from agui_client._tools.function import FunctionTool, tool
    from agui_client._tools.tool_limits import ToolLimits
    from agui_client._tools.toolset import FunctionToolset, Toolset
    from agui_client._transport.retry import RetryPolicy
    from agui_client._transport.timeouts import Timeouts
    from agui_client.function_agent import FunctionAgent
    from agui_client.history import Window
    from agui_client.langgraph import langgraph_interrupts
    from agui_client.messages import attach

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
    "ProtocolError",
    "ProtocolWarning",
    "Reducer",
    "Resolve",
    "RetryPolicy",
    "RunFailedError",
    "RunInProgressError",
    "RunObserver",
    "RunResult",
    "RunTimeoutError",
    "StreamTimeoutError",
    "StreamTooLargeError",
    "StreamedToolCall",
    "Subscriber",
    "SyncAgentRun",
    "ThreadBusyError",
    "ThreadStoreError",
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
    "langgraph_interrupts",
    "tool",
]

_LATER = {
    "AgentRun": "agui_client._run.async_run",
    "ApprovalRequest": "agui_client._tools.approval",
    "Approve": "agui_client._tools.approval",
    "Cancel": "agui_client._interrupts.answers",
    "Deny": "agui_client._tools.approval",
    "FunctionAgent": "agui_client.function_agent",
    "FunctionTool": "agui_client._tools.function",
    "FunctionToolset": "agui_client._tools.toolset",
    "ProtocolWarning": "agui_client._protocol.warnings",
    "Resolve": "agui_client._interrupts.answers",
    "RetryPolicy": "agui_client._transport.retry",
    "RunResult": "agui_client._run.result",
    "StreamedToolCall": "agui_client._run.tool_calls",
    "SyncAgentRun": "agui_client._run.sync_run",
    "Timeouts": "agui_client._transport.timeouts",
    "ToolContext": "agui_client._tools.context",
    "ToolExecution": "agui_client._tools.context",
    "ToolLimits": "agui_client._tools.tool_limits",
    "Toolset": "agui_client._tools.toolset",
    "UnrecognizedEvent": "agui_client._protocol.events",
    "Window": "agui_client.history",
    "answer_model": "agui_client._interrupts.models",
    "attach": "agui_client.messages",
    "langgraph_interrupts": "agui_client.langgraph",
    "tool": "agui_client._tools.function",
}


def _span_observer() -> RunObserver | None:
    """Return the observer that makes spans, for applications that have imported OpenTelemetry."""
    if "opentelemetry.trace" not in sys.modules:
        return None
    from agui_client.otel import span_observer

    return span_observer()


def _metric_observer() -> RunObserver | None:
    """Return the observer that measures, for applications that have imported OpenTelemetry's metrics."""
    if "opentelemetry.metrics" not in sys.modules:
        return None
    from agui_client.otel import metric_observer

    return metric_observer()


DEFAULT_OBSERVERS[:] = [RunLog, _span_observer, _metric_observer]


def __getattr__(name: str) -> Any:
    if not name.startswith("_") and name in vars(types := import_module("agui_client.types")):
        # Names of the first edition, importable from here until 0.3.
        import warnings

        message = f"import {name} from agui_client.types; agui_client.{name} goes with version 0.3"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return getattr(types, name)
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_LATER[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
