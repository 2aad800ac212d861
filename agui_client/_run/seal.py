"""Signatures of the interrupts that a caller gets, so that a server that keeps nothing knows its own again (SEC-3)."""

from __future__ import annotations

import hmac
import json

from agui_client._protocol.open_items import quoted
from agui_client.errors import UsageError

_SHORTEST = 16


class Seal:
    """Signs the ids of interrupts in one thread, with a key that its caller does not know.

    Args:
        secret: The key.
        thread_id: The thread.

    Raises:
        UsageError: The key is none, or so short that it can be guessed.
    """

    def __init__(self, secret: str | bytes, thread_id: str) -> None:
        self._key, self._thread_id = key_of(secret), thread_id

    def signed(self, interrupt_id: str) -> str:
        """Return the id under which a caller gets an interrupt."""
        named = json.dumps([self._thread_id, interrupt_id]).encode()
        return f"{interrupt_id}.{hmac.new(self._key, named, 'sha256').hexdigest()}"

    def opened(self, answered_id: str) -> str:
        """Return the id of the interrupt that a caller answers.

        Raises:
            UsageError: It was never signed.
        """
        interrupt_id = answered_id.rpartition(".")[0]
        if not hmac.compare_digest(self.signed(interrupt_id).encode(), answered_id.encode()):
            raise UsageError(f"resume answers {quoted(answered_id)}, which was not asked in this thread")
        return interrupt_id


def key_of(secret: object) -> bytes:
    """Return the key that the `secret=` option means.

    Raises:
        UsageError: It is none, or so short that it can be guessed.
    """
    key = secret.encode() if isinstance(secret, str) else secret
    if not isinstance(key, bytes) or len(key) < _SHORTEST:
        raise UsageError(f"secret= is text or bytes, not fewer than {_SHORTEST}: secrets.token_urlsafe() makes one")
    return key
