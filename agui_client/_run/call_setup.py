"""The parts that an agent brings to a call: everything that the engine needs to know of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agui_client._interrupts.answers import Answerer
    from agui_client._protocol.pipeline import NullFields
    from agui_client._run.ending import OnAbort
    from agui_client._run.hooks import Subscriber
    from agui_client._run.middleware import Middleware, Run
    from agui_client._run.observers import Observers
    from agui_client._run.scope import AgentInfo
    from agui_client._tools.approval import Approver
    from agui_client._tools.tool_limits import ToolLimits
    from agui_client._tools.toolset import ToolSource
    from agui_client.conversation import Conversation


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSetup:
    """The parts that an agent brings to a call."""

    agent: AgentInfo
    """The agent, as observers see it."""
    owner: object
    """The agent object."""
    run: Run
    """The agent's `run`, or `connect` for a replay."""
    is_remote: bool
    """Whether runs are posted as JSON, rather than handed to code of this process."""
    max_protocol_version: str | None
    """The newest version that the agent is known to speak, if that is older than 1.0."""
    conversation: Conversation
    """The conversation."""
    tools: ToolSource
    """The agent's tools."""
    approve: Approver | None
    """The function that approves tool calls."""
    answer: Answerer | None
    """The function that answers interrupts."""
    limits: ToolLimits
    """The limits of the tool rounds."""
    on_abort: OnAbort | None
    """The function that is called when a run is left before its end."""
    middleware: Sequence[Middleware]
    """Functions around each run, outermost first."""
    subscribers: Sequence[Subscriber]
    """The subscribers, whose hooks are called; they may come and go."""
    observers: Observers
    """The observers."""
    null_fields: NullFields
    """The treatment of a null that stands for a whole optional field."""
    strict: bool
    """Whether ids that do not match are fatal."""
    total: float = math.inf
    """The seconds that the call may take; infinite if that is not limited."""
    is_replay: bool = False
    """Whether the server sends the thread again, rather than goes on with it; there may be nothing to send."""
