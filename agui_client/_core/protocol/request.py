"""The last step before a run input is sent: it becomes conforming, and as new as the peer can take (INPUT, VER).

Unknown material is stripped with a warning, malformed values stop the run before a byte leaves (INPUT-3), activity
messages are not sent (INPUT-4). It runs after middleware, which can bring any of it back.

To change

- how long a large input or thread holds up the event loop: this module (`is_large`, and slices in `_copy`),
  `Run.prepare`; `asgi/_request_body.py`; `read_entries` in `_core/conversation/log.py`: each in a thread, and in
  slices, as compiled validators let no other thread run
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, cast, get_args

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

from agui_client._core.protocol.compat import upgraded_messages
from agui_client._core.protocol.custom_interrupts import with_answers
from agui_client._core.protocol.message_text import content_text
from agui_client._core.protocol.placeholders import without_mark
from agui_client._core.protocol.plain_json import members_as_json, write
from agui_client._core.protocol.problems import Refusal, summary
from agui_client._core.protocol.schema import is_array, is_object, record
from agui_client._core.protocol.shared_messages import SharedMessages, note_conforming, unknown_messages
from agui_client._core.protocol.validation import Sanitizer
from agui_client._core.protocol.verify import version_key
from agui_client._core.protocol.warnings import WarningLog
from agui_client.errors import UsageError

_INPUT = record(RunAgentInput)
_SENT = frozenset(get_args(get_args(Message)[0])) - {ActivityMessage}
"""The classes of the messages that are sent."""
_WHOLE: dict[str, Callable[[], Any]] = {"tools": list, "context": list, "forwarded_props": dict}
"""Members that are sent even when empty: absent means the same (INPUT-5), but servers before 1.0 refuse it."""

_LARGE = 1000
"""The messages and values of a large input; one with fewer is prepared in a few milliseconds."""
_SLICE = 1000
"""The messages that are checked in one go, during which no other thread runs."""
_NOTHING_ELSE: dict[str, Any] = {
    "state": {},
    "tools": None,
    "context": None,
    "forwarded_props": None,
    "resume": None,
}
"""The members of an input that only has messages."""
_STRING_CONTENT = (0, 0, 39)
"""The newest peers whose messages contain strings only."""
_NO_SUBAGENTS = (0, 0, 57)
"""The newest peers that know no subagents."""


def is_large(run_input: RunAgentInput) -> bool:
    """Return whether an input takes so long to prepare that an event loop should not wait for it.

    Args:
        run_input: The input, as `prepare_input` takes it.
    """
    messages: Any = run_input.__dict__.get("messages")
    count = len(cast("Sequence[Any]", messages)) if is_array(messages) else 0
    values: list[Any] = [run_input.__dict__.get("state"), run_input.__dict__.get("forwarded_props")]
    while values and count < _LARGE:
        value = values.pop()
        count += 1
        if is_object(value):
            values += value.values()
        elif is_array(value):
            values += value
    return count >= _LARGE


def prepare_input(
    run_input: RunAgentInput, warnings: WarningLog, *, max_protocol_version: str | None = None, is_copied: bool = True
) -> RunAgentInput:
    """Make a run input ready to be sent.

    Args:
        run_input: The input of the application, its hooks and its middleware; messages may also be JSON objects.
        warnings: The log that receives a warning for everything that is stripped or lost.
        max_protocol_version: The newest version the peer is known to speak, such as "0.0.57"; None for a peer that is
            as new as this client (VER-4).
        is_copied: Whether what is prepared must share nothing that could be changed with what was given, because an
            agent in this process gets it. What is only written as JSON may share everything.

    Returns:
        A new, conforming input.

    Raises:
        UsageError: A value is malformed, or JSON cannot hold it; nothing was sent. Paths count the messages that are
            sent, without activity messages.
    """
    peer = None if max_protocol_version is None else version_key(max_protocol_version)
    messages: Any = run_input.__dict__.get("messages")  # middleware may leave them out, or bring anything
    # Compiled: few conversations have activities, and many have thousands of messages.
    if isinstance(messages, list | tuple) and not set(map(type, cast("list[Any]", messages))) <= _SENT:
        sent = [message for message in cast("list[Any]", messages) if not _is_activity(message)]
        run_input = run_input.model_copy(update={"messages": sent})
    prepared = with_answers(_conforming(run_input, is_copied=is_copied) or _stripped(run_input, warnings))
    filled: dict[str, Any] = {name: make() for name, make in _WHOLE.items() if getattr(prepared, name) is None}
    if peer is None:
        return prepared.model_copy(update={"protocol_version": PROTOCOL_VERSION, **filled})
    return _downgraded(prepared, peer, warnings).model_copy(update=filled)


def request_body(run_input: RunAgentInput) -> bytes:
    """Return a prepared input as JSON: what `model_dump_json(by_alias=True)` makes of it, in a fifth of the time."""
    try:
        return write(run_input)
    except ValueError:
        return run_input.model_dump_json(by_alias=True).encode()


def _conforming(run_input: RunAgentInput, *, is_copied: bool) -> RunAgentInput | None:
    """Return an input that can be sent as it is; None if anything has to be stripped or refused."""
    try:
        if is_copied:
            return _copy(run_input)
        write(run_input)
    except ValueError:
        return None
    return run_input


def _copy(run_input: RunAgentInput) -> RunAgentInput:
    """Return a copy that shares messages until they are looked at, and nothing else.

    New messages are checked in slices, between which other threads may run.

    Raises:
        ValueError: The input does not conform.
    """
    messages: Any = run_input.__dict__.get("messages")
    if not isinstance(messages, list):
        raise ValueError
    given: list[Any] = cast("Any", messages)
    # Without a look: messages that an earlier run has copied for its agent are shared once more.
    whole = list[Any].copy(given)
    new = unknown_messages(whole)
    # Nearly always few are new, which are written with all else.
    written = write(run_input.model_copy(update={"messages": new[:_SLICE]}))
    for at in range(_SLICE, len(new), _SLICE):
        write(run_input.model_copy(update={**_NOTHING_ELSE, "messages": new[at : at + _SLICE]}))
    note_conforming(new)
    return RunAgentInput.model_validate_json(written).model_copy(update={"messages": SharedMessages(whole)})


def _stripped(run_input: RunAgentInput, warnings: WarningLog) -> RunAgentInput:
    refusals = list[Refusal]()
    data = members_as_json(run_input, refusals)
    if refusals:
        _refuse(refusals)
    data = upgraded_messages(data, warnings)
    data["protocolVersion"] = PROTOCOL_VERSION
    stripper = Sanitizer(warnings, "the run input", rule="INPUT-3", nulls="omit")
    prepared: RunAgentInput | None = stripper.validated(_INPUT, stripper.strip(_INPUT, data))
    return _refuse(stripper.refusals) if prepared is None else prepared


def _is_activity(message: Any) -> bool:
    return bool((message.get("role") if is_object(message) else getattr(message, "role", None)) == "activity")


def _downgraded(prepared: RunAgentInput, peer: tuple[int, ...], warnings: WarningLog) -> RunAgentInput:
    """Return the input in the shape of an older peer (VER-5 … VER-8): nothing invented, nothing repaired."""
    # No version before 1.0 declares one.
    update: dict[str, Any] = {"protocol_version": None if peer < (1,) else PROTOCOL_VERSION}
    messages = prepared.messages
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
    if message.role == "tool":
        message = without_mark(message)
    match message:
        case UserMessage(content=list() as parts) | ToolMessage(content=list() as parts):
            lost = [part.type for part in parts if not isinstance(part, TextPart)]
            if lost:
                path = f"/messages/{index}/content"
                what = f"{path} written as a string DROPS non-text parts ({', '.join(lost)})"
                warnings.add("VER-8", f"{what}: a peer of 0.0.39 or older takes none; upgrade it", path=path)
            return message.model_copy(update={"content": content_text(parts, "", names_media=False)})
        case AssistantMessage(content=None):
            # The older schema requires what is now optional: the empty filler that VER-6 allows.
            return message.model_copy(update={"content": ""})
        case _:
            return message


def _refuse(refusals: Sequence[Refusal]) -> NoReturn:
    raise UsageError(f"the run input cannot be sent: {summary(refusals)}; nothing was sent")
