"""Signatures of a served agent, so that no caller answers what was never asked, or says what a team has done.

To change

- the signature of interrupts: `SignedInterrupts` says when and for whom, `Signer` how, both here; `interrupts_of` in
  `_core/verbs/caller_interrupts.py` signs, `_answering` in `_serving/caller_input.py` checks; `secret=` in
  `asgi/_app.py`, `AGUI_SECRET` in `_cli/serve.py`
"""

from __future__ import annotations

import hmac
import json
import logging
from dataclasses import dataclass, field
from functools import cache, partial

from agui_client._core.ground.field_docs import Record
from agui_client._core.protocol.open_items import quoted
from agui_client._core.verbs.signed_journal import SignedJournal, UnverifiedError
from agui_client.errors import UsageError

_SHORTEST = 16
"""The bytes of the shortest key."""
_logger = logging.getLogger("agui_client.asgi")


@dataclass(frozen=True, slots=True)
class SignedInterrupts(Record):
    """The proof of an app that stores no thread that it asked what a caller answers."""

    secret: str | bytes | None = field(repr=False)
    """The key that the application gave; None if it gave none."""
    process_key: bytes = field(repr=False)
    """The key of this process, which signs without a secret where no thread is stored."""
    is_caller_trusted: bool = False
    """Whether the caller is believed without a signature."""
    app: str = ""
    """The name of the app."""
    path: str = ""
    """The path of the request where it may choose the agent; empty where the app has one agent."""
    owner: str = ""
    """The owner of the thread, such as the id of a user; empty where callers are not told apart."""

    def __post_init__(self) -> None:
        if self.secret is not None:
            key_of(self.secret)

    def signer(self, thread_id: str, *, is_stored: bool) -> Signer | None:
        """Return what signs for the caller of a thread; None where nothing is signed.

        Args:
            thread_id: The thread.
            is_stored: Whether the thread is stored here.
        """
        is_proven = is_stored or self.is_caller_trusted
        if self.secret is None and is_proven:
            return None
        key = self.process_key if self.secret is None else key_of(self.secret)
        scope = (self.app, self.path, self.owner, thread_id)
        return Signer(key, scope, is_of_process=self.secret is None, has_journal=not is_proven)


class Signer:
    """Signs the ids of interrupts, and the journal of a team, with a key that the caller does not know.

    Args:
        key: The key.
        scope: The name of the app, the path, the owner of the thread, and the thread, which all signatures are for.
        is_of_process: Whether only this process has the key.
        has_journal: Whether the caller holds the journals of teams.
    """

    def __init__(self, key: bytes, scope: tuple[str, ...], *, is_of_process: bool, has_journal: bool) -> None:
        self._key, self._scope, self._is_of_process = key, scope, is_of_process
        self.journal: SignedJournal | None = SignedJournal(partial(self._signature, "journal")) if has_journal else None
        """The journal of the run for its caller; None if the caller gets it as it is."""

    def sign(self, interrupt_id: str) -> str:
        """Return the id under which the caller gets an interrupt."""
        return f"{interrupt_id}.{self._signature('interrupt', _encoded(interrupt_id)).hex()}"

    def verified(self, answered_id: str) -> str:
        """Return the id of the interrupt that a caller answers.

        Raises:
            UnverifiedError: It was never signed.
        """
        interrupt_id = answered_id.rpartition(".")[0]
        if not hmac.compare_digest(_encoded(self.sign(interrupt_id)), _encoded(answered_id)):
            how = "; processes of one server need the same secret=" if self._is_of_process else ""
            raise UnverifiedError(f"resume answers {quoted(answered_id)}, which was not asked in this thread{how}")
        return interrupt_id

    def _signature(self, kind: str, signed: bytes) -> bytes:
        """Return the signature of something of a kind, which counts for no other kind, app, owner and thread."""
        if self._is_of_process:
            _warn_of_process_key()
        return hmac.digest(self._key, json.dumps([kind, *self._scope]).encode() + b"\n" + signed, "sha256")


@cache
def _warn_of_process_key() -> None:
    """Log, once in a process, that other processes will refuse the answers to the interrupts of this one."""
    _logger.warning(
        "interrupts and the notes of teams are signed with a key of this process: after a restart, and in other "
        "processes, they are refused; give all processes of a server the same agent_app(..., secret=)"
    )


def _encoded(text: str) -> bytes:
    """Return a text as bytes; the JSON of some frameworks has half characters."""
    return text.encode(errors="surrogatepass")


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
