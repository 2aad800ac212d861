"""Warnings as data: what was dropped, stripped, skipped or lost, one record per kind and place, with a count."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, replace

from agui_client._core.ground.display import Displayed
from agui_client._core.ground.field_docs import Record
from agui_client._core.ground.plain_text import printable
from agui_client._core.ground.secrets import without_sent
from agui_client._core.ground.sent_secrets import SentSecrets
from agui_client.errors import InvalidEventError, ProtocolError

_logger = logging.getLogger("agui_client")
_MAX_KINDS = 200
_REST = ("more", None, None)
_REST_MESSAGE = f"more than {_MAX_KINDS} kinds of warnings; the rest is only counted"
_POSITION = re.compile(r"/\d+(?=/|$)")


@dataclass(frozen=True, slots=True)
class ProtocolWarning(Record, Displayed):
    """A deviation from the protocol that the client tolerated and that a developer should know about."""

    rule: str
    """The id of the protocol rule, such as "PROC-8"; "more" for the record that counts the rest of a flood."""
    message: str
    """The sentence that describes it, with the reaction and the fix; of several occurrences the first one's."""
    path: str | None = None
    """The JSON pointer of the value inside the event or input; None when the whole event is meant."""
    event_index: int | None = None
    """The position of the event in the stream, from 0; of several occurrences the first. None outside a stream."""
    event_type: str | None = None
    """The event's type; None outside a stream."""
    count: int = 1
    """The number of occurrences."""
    reaction: str | None = None
    """The end of the sentence: what the client did, "dropped" or "stripped"; None if the sentence says it otherwise."""
    fix: str | None = None
    """The remedy on this side; None where nothing is to be done here, or the sentence says it."""

    @property
    def problem(self) -> str:
        """The sentence without `reaction` and `fix`."""
        text = self.message if self.fix is None else self.message.removesuffix(f"; {self.fix}")
        return text if self.reaction is None else text.removesuffix(f" {self.reaction}")


def without_positions(path: str) -> str:
    """Return the JSON pointer of a value with a star for each position in a list."""
    return _POSITION.sub("/*", path)


def whole(sentence: str, reaction: str | None, fix: str | None) -> str:
    """Return a sentence with what the client did, and with what to do about it."""
    return sentence + ("" if reaction is None else f" {reaction}") + ("" if fix is None else f"; {fix}")


class WarningLog:
    """Collects a run's warnings: many of one kind are one record with a count, and one log line."""

    def __init__(self) -> None:
        self.event_index: int | None = None
        """The position of the current event, set by the caller of the stages; None before the first event."""
        self.secrets: SentSecrets = SentSecrets()
        """The secrets that were sent to servers of the run, which no sentence about their events may quote."""
        self._records: dict[tuple[str, str | None, str | None], ProtocolWarning] = {}

    def add(
        self,
        rule: str,
        message: str,
        *,
        path: str | None = None,
        event_type: str | None = None,
        reaction: str | None = None,
        fix: str | None = None,
    ) -> None:
        """Record one occurrence.

        Args:
            rule: The id of the protocol rule.
            message: One sentence, without any payload or secret in it.
            path: The JSON pointer of the value; places that differ only in list positions share a record.
            reaction: What the client did, to follow the sentence.
            fix: What to do about it on this side, to follow that.
        """
        message = whole(message, reaction, fix)
        key = (rule, path and without_positions(path), event_type)
        if len(self._records) >= _MAX_KINDS and key not in self._records:
            key, message, path, reaction, fix = _REST, _REST_MESSAGE, None, None, None
        if (first := self._records.get(key)) is not None:
            self._records[key] = replace(first, count=first.count + 1)
            return
        message, path = self.hidden(printable(message)), path and self.hidden(printable(path))
        self._records[key] = ProtocolWarning(
            key[0], message, path, self.event_index, key[2], reaction=reaction, fix=fix
        )
        _logger.warning("%s (%s)", message, key[0])

    def hidden(self, sentence: str) -> str:
        """Return a sentence about what a server sent, without the secrets that were sent to it."""
        return without_sent(sentence, self.secrets) if self.secrets else sentence

    def hide_in(self, error: BaseException | None) -> None:
        """Take the secrets that were sent out of an error about the stream."""
        if self.secrets and isinstance(error, ProtocolError):
            error.args = tuple(self.hidden(str(each)) for each in error.args)
            error.place = self.hidden(error.place)
            if isinstance(error, InvalidEventError):
                error.values = [(rule, self.hidden(path), self.hidden(what)) for rule, path, what in error.values]
                error.path, error.errors = error.values[0][1], [what for _, _, what in error.values]

    def records(self) -> list[ProtocolWarning]:
        """Return the warnings so far, in the order in which they first occurred."""
        return list(self._records.values())
