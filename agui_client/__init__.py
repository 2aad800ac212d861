"""The Python client for AG-UI 1.0, the protocol between agents and the applications people use.

Everything public is here or in `agui_client.testing`; events, messages and tools are `ag_ui.core`'s. What only some
programs use is loaded when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from agui_client._pipeline.events import UnrecognizedEvent
from agui_client._pipeline.limits import Timeouts
from agui_client._pipeline.middleware import Middleware, Next
from agui_client._pipeline.reduce import Change, Reducer
from agui_client._pipeline.transport import Attempt, HeaderSource, Refresh, ResponseInfo, RetryPolicy
from agui_client._pipeline.warnings import ProtocolWarning
from agui_client._surfaces.calls import StreamedToolCall, ToolCalls
from agui_client._surfaces.hooks import HookContext, Mutation, Subscriber
from agui_client._surfaces.stream import AgentRun
from agui_client._surfaces.subscribers import Subscription
from agui_client._tools.approval import ApprovalRequest, Approve, Approver, Decision, Deny
from agui_client._tools.limits import ToolLimits
from agui_client.agent import AbstractAgent
from agui_client.conversation import ConversationSnapshot
from agui_client.errors import (
    AGUIError,
    ConnectError,
    ConnectTimeoutError,
    DecodeError,
    EventOrderError,
    FirstEventTimeoutError,
    HTTPStatusError,
    IdleTimeoutError,
    IncompleteRunError,
    InterruptsNotCoveredError,
    InvalidEventError,
    ProtocolError,
    RunFailedError,
    RunInProgressError,
    RunTimeoutError,
    StreamTimeoutError,
    StreamTooLargeError,
    ToolArgumentsError,
    ToolError,
    ToolRoundsExceededError,
    TransportError,
    UnexpectedContentTypeError,
    UsageError,
)
from agui_client.function_agent import FunctionAgent
from agui_client.http_agent import HttpAgent
from agui_client.interrupts import Answer, Answerer, Cancel, Resolve, Resume
from agui_client.messages import MessageLike, Prompt, ToolFailure, media_part
from agui_client.options import ConnectOptions, RunOptions
from agui_client.result import RunResult, Snapshot, Timings, ToolExecution

if TYPE_CHECKING:
    from agui_client._answers.model import answer_model
    from agui_client._surfaces.abort import OnAbort
    from agui_client._surfaces.logs import EventLog
    from agui_client._surfaces.sync import SyncAgentRun
    from agui_client._tools.context import ToolContext
    from agui_client._tools.function import FunctionTool, tool
    from agui_client._tools.offer import ToolSource
    from agui_client.langgraph import langgraph_interrupts

__all__ = [
    "AGUIError",
    "AbstractAgent",
    "AgentRun",
    "Answer",
    "Answerer",
    "ApprovalRequest",
    "Approve",
    "Approver",
    "Attempt",
    "Cancel",
    "Change",
    "ConnectError",
    "ConnectOptions",
    "ConnectTimeoutError",
    "ConversationSnapshot",
    "Decision",
    "DecodeError",
    "Deny",
    "EventLog",
    "EventOrderError",
    "FirstEventTimeoutError",
    "FunctionAgent",
    "FunctionTool",
    "HTTPStatusError",
    "HeaderSource",
    "HookContext",
    "HttpAgent",
    "IdleTimeoutError",
    "IncompleteRunError",
    "InterruptsNotCoveredError",
    "InvalidEventError",
    "MessageLike",
    "Middleware",
    "Mutation",
    "Next",
    "OnAbort",
    "Prompt",
    "ProtocolError",
    "ProtocolWarning",
    "Reducer",
    "Refresh",
    "Resolve",
    "ResponseInfo",
    "Resume",
    "RetryPolicy",
    "RunFailedError",
    "RunInProgressError",
    "RunOptions",
    "RunResult",
    "RunTimeoutError",
    "Snapshot",
    "StreamTimeoutError",
    "StreamTooLargeError",
    "StreamedToolCall",
    "Subscriber",
    "Subscription",
    "SyncAgentRun",
    "Timeouts",
    "Timings",
    "ToolArgumentsError",
    "ToolCalls",
    "ToolContext",
    "ToolError",
    "ToolExecution",
    "ToolFailure",
    "ToolLimits",
    "ToolRoundsExceededError",
    "ToolSource",
    "TransportError",
    "UnexpectedContentTypeError",
    "UnrecognizedEvent",
    "UsageError",
    "answer_model",
    "langgraph_interrupts",
    "media_part",
    "tool",
]

_LATER = {
    "EventLog": "agui_client._surfaces.logs",
    "SyncAgentRun": "agui_client._surfaces.sync",
    "answer_model": "agui_client._answers.model",
    "OnAbort": "agui_client._surfaces.abort",
    "ToolContext": "agui_client._tools.context",
    "ToolSource": "agui_client._tools.offer",
    "FunctionTool": "agui_client._tools.function",
    "tool": "agui_client._tools.function",
    "langgraph_interrupts": "agui_client.langgraph",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_LATER[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
