"""Signatures of the interrupts of a served agent, so that its caller cannot answer one that was never asked."""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterator
from typing import Any

from agui_client._protocol.open_items import quoted
from agui_client._protocol.schema import is_array, is_object
from agui_client._run.subagents import JOURNAL
from agui_client.errors import UsageError

_SHORTEST = 16


class Seal:
    """Signs the ids of interrupts in one thread, with a key that its caller does not know.

    Args:
        secret: The key.
        thread_id: The thread.

    Raises:
        UsageError: The key is neither text nor bytes, or so short that it can be guessed.
    """

    def __init__(self, secret: str | bytes, thread_id: str) -> None:
        self._key, self._thread_id = key_of(secret), thread_id
        self._answered: set[str] = set()
        self._unproven: tuple[str, ...] = ()

    def distrust(self, state: Any, own_state: Any) -> None:
        """Refuse to sign interrupts that only the caller's state names: a team asks again what the journal in it says.

        Args:
            state: The state that the caller sent.
            own_state: The state of a thread that is stored here, whose journal may have the same interrupts.
        """
        self._unproven = tuple(set(_noted(state)) - set(_noted(own_state)))

    def sign(self, interrupt_id: str) -> str:
        """Return the id under which the caller gets an interrupt.

        Raises:
            UsageError: It may be one that the caller made up.
        """
        # A team puts the invocation of its member before an id that is in its journal.
        if interrupt_id not in self._answered and interrupt_id.endswith(self._unproven):
            raise UsageError(
                f"the interrupt {quoted(interrupt_id)} of the caller's state is not answered: with secret=, "
                "a caller answers all interrupts of a run at once"
            )
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
            raise UsageError(f"resume answers {quoted(answered_id)}, which was not asked in this thread")
        self._answered.add(interrupt_id)
        return interrupt_id


def key_of(secret: object) -> bytes:
    """Return the key that the `secret=` option means.

    Raises:
        UsageError: It is neither text nor bytes, or so short that it can be guessed.
    """
    key = secret.encode() if isinstance(secret, str) else secret
    if not isinstance(key, bytes) or len(key) < _SHORTEST:
        raise UsageError(
            f"the secret must be text or bytes, at least {_SHORTEST} bytes long; secrets.token_urlsafe() makes one"
        )
    return key


def _noted(value: Any, *, is_journal: bool = False) -> Iterator[str]:
    """Yield the ids of the interrupts in the journals of teams, which are in each other where members are teams."""
    if is_object(value):
        for name, each in value.items():
            if is_journal and name == "interrupts" and is_array(each):
                yield from (str(one["id"]) for one in each if is_object(one) and one.get("id"))
            yield from _noted(each, is_journal=is_journal or name == JOURNAL)
    elif is_array(value):
        for each in value:
            yield from _noted(each, is_journal=is_journal)
