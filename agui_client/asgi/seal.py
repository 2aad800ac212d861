"""Signatures of the interrupts of a served agent, so that its caller cannot answer one that was never asked."""

from __future__ import annotations

import hmac
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from agui_client._field_docs import Record
from agui_client._protocol.open_items import quoted
from agui_client._protocol.schema import is_array, is_object
from agui_client._run.subagents import JOURNAL
from agui_client.errors import UsageError

_SHORTEST = 16
"""The bytes of the shortest key."""
_logger = logging.getLogger("agui_client.asgi")


@dataclass(frozen=True, slots=True)
class Signing(Record):
    """The proof of an app that stores no thread that it asked what a caller answers."""

    secret: str | bytes | None = field(repr=False)
    """The key that the application gave; None if it gave none."""
    process_key: bytes = field(repr=False)
    """The key of this process, which signs without a secret where no thread is stored."""
    is_caller_trusted: bool = False
    """Whether the caller is believed without a signature."""

    def __post_init__(self) -> None:
        if self.secret is not None:
            key_of(self.secret)

    def seal(self, thread_id: str, *, is_stored: bool) -> Seal | None:
        """Return what signs the interrupts of a thread; None where nothing is signed.

        Args:
            thread_id: The thread.
            is_stored: Whether the thread is stored here.
        """
        if self.secret is not None:
            return Seal(self.secret, thread_id)
        if is_stored or self.is_caller_trusted:
            return None
        return Seal(self.process_key, thread_id, is_of_process=True)


class Seal:
    """Signs the ids of interrupts in one thread, with a key that its caller does not know.

    Args:
        secret: The key.
        thread_id: The thread.
        is_of_process: Whether only this process has the key.

    Raises:
        UsageError: The key is neither text nor bytes, or so short that it can be guessed.
    """

    def __init__(self, secret: str | bytes, thread_id: str, *, is_of_process: bool = False) -> None:
        self._key, self._thread_id, self._is_of_process = key_of(secret), thread_id, is_of_process
        self._answered: set[str] = set()
        self._unsigned_ids: tuple[str, ...] = ()

    def refuse_ids_of(self, state: Any, own_state: Any) -> None:
        """Refuse to sign interrupts that only the caller's state names.

        A team asks again what the journal in its state says, so a caller could write a question into the journal, and
        get it signed.

        Args:
            state: The state that the caller sent.
            own_state: The state of a thread that is stored here, whose journal may have the same interrupts.
        """
        self._unsigned_ids = tuple(set(_journal_interrupt_ids(state)) - set(_journal_interrupt_ids(own_state)))

    def sign(self, interrupt_id: str) -> str:
        """Return the id under which the caller gets an interrupt.

        Raises:
            UsageError: Only the caller's state names it, so the caller may have made it up.
        """
        # A team puts the invocation of its member before an id that is in its journal.
        if interrupt_id not in self._answered and interrupt_id.endswith(self._unsigned_ids):
            raise UsageError(
                f"the interrupt {quoted(interrupt_id)} of the caller's state is not answered: where interrupts are "
                "signed, a caller answers all interrupts of a run at once"
            )
        if self._is_of_process:
            _warn_of_process_key()
        return self._with_signature(interrupt_id)

    def _with_signature(self, interrupt_id: str) -> str:
        named = json.dumps([self._thread_id, interrupt_id]).encode()
        return f"{interrupt_id}.{hmac.new(self._key, named, 'sha256').hexdigest()}"

    def verified(self, answered_id: str) -> str:
        """Return the id of the interrupt that a caller answers.

        Raises:
            UsageError: It was never signed.
        """
        interrupt_id = answered_id.rpartition(".")[0]
        if not hmac.compare_digest(self._with_signature(interrupt_id).encode(), answered_id.encode()):
            how = "; processes of one server need the same secret=" if self._is_of_process else ""
            raise UsageError(f"resume answers {quoted(answered_id)}, which was not asked in this thread{how}")
        self._answered.add(interrupt_id)
        return interrupt_id


@cache
def _warn_of_process_key() -> None:
    """Log, once in a process, that other processes will refuse the answers to the interrupts of this one."""
    _logger.warning(
        "interrupts are signed with a key of this process: after a restart, and in other processes, answers to them "
        "are refused; give all processes of a server the same agent_app(..., secret=)"
    )


def key_of(secret: object) -> bytes:
    """Return the key of the `secret=` option as bytes.

    Raises:
        UsageError: It is neither text nor bytes, or so short that it can be guessed.
    """
    key = secret.encode() if isinstance(secret, str) else secret
    if not isinstance(key, bytes) or len(key) < _SHORTEST:
        raise UsageError(
            f"the secret must be text or bytes, at least {_SHORTEST} bytes long; secrets.token_urlsafe() makes one"
        )
    return key


def _journal_interrupt_ids(value: Any, *, is_journal: bool = False) -> Iterator[str]:
    """Yield the ids of the interrupts in the journals of teams, which are in each other where members are teams."""
    if is_object(value):
        for name, each in value.items():
            if is_journal and name == "interrupts" and is_array(each):
                yield from (str(one["id"]) for one in each if is_object(one) and one.get("id"))
            yield from _journal_interrupt_ids(each, is_journal=is_journal or name == JOURNAL)
    elif is_array(value):
        for each in value:
            yield from _journal_interrupt_ids(each, is_journal=is_journal)
