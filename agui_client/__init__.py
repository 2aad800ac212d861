"""The Python client for AG-UI 1.0, the protocol between agents and the applications people use.

Everything public is here or in `agui_client.testing`; events, messages and tools are `ag_ui.core`'s.
"""

from agui_client._pipeline.events import UnrecognizedEvent
from agui_client._pipeline.limits import Timeouts
from agui_client._pipeline.middleware import Middleware, Next
from agui_client._pipeline.reduce import Change, Reducer
from agui_client._pipeline.transport import ResponseInfo
from agui_client._pipeline.warnings import ProtocolWarning
from agui_client._surfaces.hooks import HookContext, Mutation, Subscriber
from agui_client._surfaces.stream import AgentRun
from agui_client._surfaces.subscribers import Subscription
from agui_client._surfaces.sync import SyncAgentRun
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
    StreamTooLargeError,
    TransportError,
    UnexpectedContentTypeError,
    UsageError,
)
from agui_client.function_agent import FunctionAgent
from agui_client.http_agent import HttpAgent
from agui_client.interrupts import Cancel, Resolve
from agui_client.messages import Prompt, ToolFailure
from agui_client.options import RunOptions
from agui_client.result import RunResult, Snapshot, Timings

__all__ = [
    "AGUIError",
    "AbstractAgent",
    "AgentRun",
    "Cancel",
    "Change",
    "ConnectError",
    "ConnectTimeoutError",
    "ConversationSnapshot",
    "DecodeError",
    "EventOrderError",
    "FirstEventTimeoutError",
    "FunctionAgent",
    "HTTPStatusError",
    "HookContext",
    "HttpAgent",
    "IdleTimeoutError",
    "IncompleteRunError",
    "InterruptsNotCoveredError",
    "InvalidEventError",
    "Middleware",
    "Mutation",
    "Next",
    "Prompt",
    "ProtocolError",
    "ProtocolWarning",
    "Reducer",
    "Resolve",
    "ResponseInfo",
    "RunFailedError",
    "RunInProgressError",
    "RunOptions",
    "RunResult",
    "RunTimeoutError",
    "Snapshot",
    "StreamTooLargeError",
    "Subscriber",
    "Subscription",
    "SyncAgentRun",
    "Timeouts",
    "Timings",
    "ToolFailure",
    "TransportError",
    "UnexpectedContentTypeError",
    "UnrecognizedEvent",
    "UsageError",
]
