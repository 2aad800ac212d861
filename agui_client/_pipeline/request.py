"""The last step before a run input is sent: what leaves is conforming, and as new as the peer can take (INPUT, VER).

Unknown material is taken out with a warning, malformed values stop the run before a byte leaves (INPUT-3), activity
messages stay at home (INPUT-4). It runs after middleware, which can bring any of it back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from ag_ui.core import (
    PROTOCOL_VERSION,
    ActivityMessage,
    AssistantMessage,
    Message,
    RunAgentInput,
    TextPart,
    ToolMessage,
    UserMessage,
)

from agui_client._pipeline.compat import upgraded_messages
from agui_client._pipeline.plain import members_as_json
from agui_client._pipeline.refusal import Refusal, summary
from agui_client._pipeline.schema import is_array, is_object, record
from agui_client._pipeline.sift import Sieve
from agui_client._pipeline.versions import version_key
from agui_client._pipeline.warnings import WarningLog
from agui_client.errors import UsageError

_INPUT = record(RunAgentInput)
_WITHHELD: dict[str, Any] = {"id": "", "role": "activity", "activityType": "", "content": {}}
"""Keeps an activity message's place until the end, so that paths count the messages as the application does."""

_STRING_CONTENT = (0, 0, 39)
"""The newest peers whose messages hold strings only."""
_NO_SUBAGENTS = (0, 0, 57)
"""The newest peers that know no subagents."""
_VERSIONED = (1,)
"""The oldest peers that declare a version."""


def prepare_input(
    run_input: RunAgentInput, warnings: WarningLog, *, max_protocol_version: str | None = None
) -> RunAgentInput:
    """Make a run input ready to be sent.

    Args:
        run_input: What the application, its hooks and its middleware made of it; messages may also be JSON objects.
        warnings: Where everything that is taken out or lost is reported.
        max_protocol_version: The newest version the peer is known to speak, such as "0.0.57"; None for a peer that is
            as new as this client (VER-4).

    Returns:
        A new, conforming input.

    Raises:
        UsageError: A value is malformed, or JSON cannot hold it; nothing was sent.
    """
    peer = None if max_protocol_version is None else version_key(max_protocol_version)
    data = upgraded_messages(_as_json_object(run_input), warnings)
    data["protocolVersion"] = PROTOCOL_VERSION
    sieve = Sieve(warnings, "the run input", rule="INPUT-3", nulls="omit")
    prepared: RunAgentInput | None = sieve.validated(_INPUT, sieve.sift(_INPUT, data))
    if prepared is None:
        _refuse(sieve.refusals)
    if peer is not None:
        prepared = _downgraded(prepared, peer, warnings)
    sent = [message for message in prepared.messages if not isinstance(message, ActivityMessage)]
    return prepared.model_copy(update={"messages": sent})


def _as_json_object(run_input: RunAgentInput) -> dict[str, Any]:
    """The input as JSON, before it is judged, without what never leaves."""
    shown = run_input.model_copy(update={"messages": _without_activities(run_input.__dict__.get("messages"))})
    refusals: list[Refusal] = []
    data = members_as_json(shown, refusals)
    if refusals:
        _refuse(refusals)
    return data


def _without_activities(messages: Any) -> Any:
    if not is_array(messages):
        return messages
    return [_WITHHELD if _is_activity(message) else message for message in messages]


def _is_activity(message: Any) -> bool:
    if is_object(message):
        return bool(message.get("role") == "activity")
    return isinstance(message, ActivityMessage)


def _downgraded(prepared: RunAgentInput, peer: tuple[int, ...], warnings: WarningLog) -> RunAgentInput:
    """The input in the shape of an older peer (VER-5 … VER-8): nothing invented, nothing repaired."""
    update: dict[str, Any] = {}
    messages = prepared.messages
    if peer < _VERSIONED:
        update["protocol_version"] = None
    if peer <= _NO_SUBAGENTS:
        messages = [message.model_copy(update={"subagent_run_id": None}) for message in messages]
    if peer <= _STRING_CONTENT:
        messages = [_flattened(message, index, warnings) for index, message in enumerate(messages)]
        update["parent_run_id"] = None
        if prepared.parent_run_id is not None:
            lost = "parentRunId withheld from a peer of 0.0.39 or older, which does not know it; upgrade the peer"
            warnings.add("VER-8", lost, path="/parentRunId")
    return prepared.model_copy(update=update | {"messages": messages})


def _flattened(message: Message, index: int, warnings: WarningLog) -> Message:
    match message:
        case UserMessage(content=list() as parts) | ToolMessage(content=list() as parts):
            lost = [part.type for part in parts if not isinstance(part, TextPart)]
            if lost:
                path = f"/messages/{index}/content"
                what = f"{path} written as a string DROPS non-text parts ({', '.join(lost)})"
                warnings.add("VER-8", f"{what}: a peer of 0.0.39 or older takes none; upgrade it", path=path)
            text = "".join(part.text for part in parts if isinstance(part, TextPart))
            return message.model_copy(update={"content": text})
        case AssistantMessage(content=None):
            # The older schema requires what is now optional: the empty filler that VER-6 allows.
            return message.model_copy(update={"content": ""})
        case _:
            return message


def _refuse(refusals: Sequence[Refusal]) -> NoReturn:
    raise UsageError(f"the run input cannot be sent: {summary(refusals)}; nothing was sent")
