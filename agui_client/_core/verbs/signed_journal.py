"""The journal of a team for a caller who holds the conversation: signed texts, which the caller sends back as they are.

A journal says what members were asked, what they have begun, and which answers they have: a caller who could write it
would have any tool called (SEC-3). Its texts are base64url of JSON, which no client parses and writes again (JavaScript
writes 10.0 as 10). The first has the whole journal, each further one a JSON Patch on it, and the signature of each
covers the one before, so that parts of two moments cannot be put together. They name the tool calls that members made,
with digests, so that a caller cannot put another call in the place of one that waits.

A signature is not fresh: nothing here knows whether a later journal was handed out. Only a stored thread does.

To change

- the journal of a team as a caller has it who holds the conversation: `SignedJournal` here: `signed` for its events,
  `opened` for its input; `_signed_events` in `_core/verbs/caller_run.py` and `_answering` in
  `_serving/caller_input.py` call them
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ag_ui.core import MessagesSnapshotEvent, StateDeltaEvent, StateSnapshotEvent, ToolCallEndEvent
from pydantic_core import from_json, to_json

from agui_client._core.protocol.message_text import tool_calls_in
from agui_client._core.protocol.open_items import quoted
from agui_client._core.protocol.patch import Document, PatchFailed, is_same_json
from agui_client._core.protocol.schema import is_array, is_object
from agui_client._core.run.subagents import JOURNAL, SIGNED, has_journal, without_journal
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from ag_ui.core import Event, Message, ToolCall

    from agui_client._core.conversation.conversation import Conversation

Sign = Callable[[bytes], bytes]
"""Returns the signature of some bytes, for one caller and thread alone."""

_OF_TEAM_AROUND = ("goes_on", "is_cut")
"""The members that the team around this one sets."""
_READABLE = (*_OF_TEAM_AROUND, "outer_state")
"""The members that are not in the texts; the last is the agent's state."""
_PLACE = f"/{JOURNAL}"
_SMALL = 16_000
"""The characters of patches that cost less than the journal anew, however small it is."""


class UnverifiedError(UsageError):
    """An answer or a journal was not signed here for this caller and thread, or not as it was sent."""


class _ForgedError(ValueError):
    """The texts were not signed here."""


class SignedJournal:
    """The journal of one run, as its caller has it.

    Args:
        sign: Signs bytes.
    """

    def __init__(self, sign: Sign) -> None:
        self._sign, self._signature = sign, b""
        self._texts: list[str] = []
        self._journal: Document | None = None
        self._digests: dict[str, str] = {}
        self._new_calls: dict[str, None] = {}

    # --- what the caller sends

    def opened(self, state: Any, messages: Iterable[Message]) -> Any:
        """Return a caller's state with the journal in place of its texts, or without one that says nothing.

        Args:
            state: The state that the caller sent.
            messages: The conversation that the caller sent.

        Raises:
            UnverifiedError: The journal was not signed here, or a tool call that it names is another one in the
                messages.
        """
        if not has_journal(state):
            return state
        sent = state[JOURNAL]
        try:
            journal = self._read(sent.get(SIGNED))
        except _ForgedError:
            if _has_begun(sent):
                raise UnverifiedError(
                    f"the member {JOURNAL!r} of the state was not signed here for this caller and thread: send it back "
                    "as it came; processes of one server need the same secret="
                ) from None
            return without_journal(state)
        self._refuse_other_calls(messages)
        readable = {name: sent[name] for name in _READABLE if name in sent}
        for name in _OF_TEAM_AROUND:
            if readable.get(name) is not True:
                readable.pop(name, None)
        self._journal = Document({**journal, **readable})
        return {**state, JOURNAL: self._journal.look()}

    def _read(self, texts: object) -> dict[str, Any]:
        if not is_array(texts) or not texts:
            raise _ForgedError
        journal, signature = Document(None), b""
        for text in texts:
            # The JSON of some frameworks has half characters.
            written, _, given = str(text).encode(errors="surrogatepass").partition(b".")
            signature = self._sign(signature + written)
            if not hmac.compare_digest(_as_text(signature).encode(), given):
                raise _ForgedError
            content = _content(written)
            with suppress(PatchFailed):  # as when it was signed
                journal.patch(_operations(content["patch"]))
            self._digests |= content["calls"]
        self._texts, self._signature = [*texts], signature
        read: dict[str, Any] = journal.look()
        return read

    def _refuse_other_calls(self, messages: Iterable[Message]) -> None:
        for message, call in tool_calls_in(messages):
            if self._digests.get(call.id, digest := _digest(call, message.id)) != digest:
                raise UnverifiedError(f"tool call {quoted(call.id)} is not the one that was made: send it as it came")

    # --- what the caller gets

    def signed(self, event: Event, conversation: Conversation) -> Event:
        """Return an event of the run as its caller gets it.

        Args:
            event: The event.
            conversation: The conversation, the event included.
        """
        if isinstance(event, ToolCallEndEvent):
            self._new_calls[event.tool_call_id] = None
        elif isinstance(event, MessagesSnapshotEvent):
            self._new_calls |= dict.fromkeys(call.id for _, call in tool_calls_in(event.messages))
        elif isinstance(event, StateSnapshotEvent):
            state = self._whole(event.snapshot, conversation)
            return event if state is event.snapshot else event.model_copy(update={"snapshot": state})
        elif isinstance(event, StateDeltaEvent):
            return event.model_copy(update={"delta": [*self._patched(event.delta, conversation)]})
        return event

    def state_of(self, state: Any, conversation: Conversation) -> Any:
        """Return a state of the run as its caller has it.

        Args:
            state: The state that the run begins with, or the one that it has after its events.
            conversation: The conversation.
        """
        self.begin(state, conversation)
        return self._whole(state, conversation)

    def begin(self, state: Any, conversation: Conversation) -> None:
        """Take over the journal that a run begins with, if no caller has sent it.

        Args:
            state: The state that the run begins with.
            conversation: The conversation.
        """
        if self._journal is None and has_journal(state):
            self._journal = Document(state[JOURNAL])
            self._new_calls |= dict.fromkeys(call.id for _, call in tool_calls_in(conversation.messages))

    def _whole(self, state: Any, conversation: Conversation) -> Any:
        if not has_journal(state):
            self._journal, self._texts = None, []
            return state
        journal = state[JOURNAL]
        known: dict[str, Any] = {} if self._journal is None else self._journal.look()
        if self._texts and is_same_json(_without_readable(known), _without_readable(journal)):
            self._journal = Document(journal)
        else:
            self._begin_again(journal, conversation)
        return {**state, JOURNAL: self._shown}

    def _patched(self, delta: Sequence[Any], conversation: Conversation) -> Iterator[Any]:
        """Yield the operations of a patch on the state, with those on the journal as one that is about its texts."""
        inside: list[dict[str, Any]] = []
        for each in delta:
            if each.path == "" and each.op in ("add", "replace"):
                yield each.model_copy(update={"value": self._whole(each.value, conversation)})
            elif each.path == _PLACE:
                state = self._whole({JOURNAL: each.value} if each.op in ("add", "replace") else {}, conversation)
                yield each.model_copy(update={"value": state[JOURNAL]}) if state else each
            elif each.path.startswith(f"{_PLACE}/"):
                inside.append({**each.model_dump(mode="json", by_alias=True), "path": each.path.removeprefix(_PLACE)})
            else:
                yield each
        if inside and self._journal is not None:
            yield from _operations([self._changed(self._journal, inside, conversation)])

    def _changed(self, journal: Document, patch: list[dict[str, Any]], conversation: Conversation) -> dict[str, Any]:
        """Change the journal; return the operation on the caller's state that does it there."""
        with suppress(PatchFailed):  # it has failed in the run's own state, too
            journal.patch(_operations(patch))
        if self._texts and sum(map(len, self._texts[1:])) <= max(len(self._texts[0]), _SMALL):
            self._append(patch, conversation)
            return {"op": "add", "path": f"{_PLACE}/{SIGNED}/-", "value": self._texts[-1]}
        has_texts = bool(self._texts)
        self._begin_again(journal.look(), conversation)
        if has_texts:
            return {"op": "replace", "path": f"{_PLACE}/{SIGNED}", "value": [*self._texts]}
        return {"op": "add", "path": _PLACE, "value": self._shown}

    @property
    def _shown(self) -> dict[str, Any]:
        """The journal as the caller has it."""
        journal: Any = {} if self._journal is None else self._journal.look()
        return {SIGNED: [*self._texts], **{name: journal[name] for name in _READABLE if name in journal}}

    def _begin_again(self, journal: dict[str, Any], conversation: Conversation) -> None:
        self._journal, self._texts, self._signature = Document(journal), [], b""
        self._new_calls |= dict.fromkeys(self._digests)
        self._append([{"op": "add", "path": "", "value": _without_readable(journal)}], conversation)

    def _append(self, patch: list[dict[str, Any]], conversation: Conversation) -> None:
        calls = {key: digest for key in self._new_calls if (digest := _digest_in(conversation, key))}
        self._digests |= calls
        self._new_calls.clear()
        written = urlsafe_b64encode(to_json({"patch": patch, "calls": calls}))
        self._signature = self._sign(self._signature + written)
        self._texts.append(f"{written.decode()}.{_as_text(self._signature)}")


def _has_begun(sent: dict[str, Any]) -> bool:
    """Return whether a journal that was not signed here says that something was done, or cannot be read."""
    journal = sent
    if SIGNED in sent:
        try:
            [only] = sent[SIGNED]
            [operation] = _content(str(only).partition(".")[0])["patch"]
            journal = operation["value"]
        except (ValueError, TypeError, LookupError):
            return True
    return not is_object(journal) or bool(journal.get("calls") or journal.get("notes"))


def _without_readable(journal: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in journal.items() if name not in _READABLE}


def _content(written: str | bytes) -> Any:
    return from_json(urlsafe_b64decode(written))


def _as_text(signature: bytes) -> str:
    return urlsafe_b64encode(signature).decode()


def _operations(patch: list[dict[str, Any]]) -> list[Any]:
    given: Any = patch
    return StateDeltaEvent(delta=given).delta


def _digest_in(conversation: Conversation, tool_call_id: str) -> str | None:
    call, place = conversation.tool_call(tool_call_id), conversation.place_of_call(tool_call_id)
    return None if call is None or place is None else _digest(call, place[0].id)


def _digest(call: ToolCall, message_id: str) -> str:
    """Return a short text that changes with the name, the arguments and the message of a tool call."""
    return hashlib.sha256(to_json([call.function.name, call.function.arguments, message_id])).hexdigest()[:32]
