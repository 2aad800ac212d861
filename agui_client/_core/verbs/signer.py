"""Signatures of the interrupts of a served agent, so that no caller answers what was never asked.

To change

- the signature of interrupts: `SignedInterrupts` says when and for whom, `Signer` how, both here; `interrupts_of` in
  `_core/verbs/caller_interrupts.py` signs, `_answering` in `_serving/answering.py` checks; `secret=` in
  `asgi/_app.py`, `AGUI_SECRET` in `_cli/serve.py`
"""

from __future__ import annotations

import hmac
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TypeAlias, cast

from agui_client._core.ground.field_docs import Record
from agui_client._core.protocol.open_items import quoted
from agui_client._core.verbs.team_journals import JournalPlace, TeamJournals
from agui_client.errors import UsageError

Secret: TypeAlias = "str | bytes | Sequence[str | bytes]"
"""The key that signs interrupts; or several, to change them: the first signs, and all are accepted."""
_SHORTEST = 16
"""The bytes of the shortest key."""
_logger = logging.getLogger("agui_client.asgi")


class UnverifiedError(UsageError):
    """An answer was not signed here for this caller and thread."""


@dataclass(frozen=True, slots=True)
class SignedInterrupts(Record):
    """The proof of an app that stores no thread that it asked what a caller answers."""

    secret: Secret | None = field(repr=False)
    """The keys that the application gave; None if it gave none."""
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
    journals: TeamJournals | None = None
    """The memory for the journals of teams; None for inputs of this program's own, which have them."""

    def __post_init__(self) -> None:
        if self.secret is not None:
            keys_of(self.secret)

    def signer(self, thread_id: str, *, is_stored: bool) -> Signer | None:
        """Return what signs for the caller of a thread; None where nothing is signed.

        Args:
            is_stored: Whether the thread is stored here.
        """
        if self.secret is None and (is_stored or self.is_caller_trusted):
            return None
        keys = (self.process_key,) if self.secret is None else keys_of(self.secret)
        scope = (self.app, self.path, self.owner, thread_id)
        return Signer(keys, scope, is_of_process=self.secret is None)

    def journal_of(self, agent_name: str, thread_id: str) -> JournalPlace | None:
        """Return the place for the journal of a thread that is not stored; None for inputs that have it."""
        if self.journals is None:
            return None
        return JournalPlace(self.journals, (self.app, self.path, agent_name, self.owner, thread_id))


class Signer:
    """Signs the ids of interrupts with a key that the caller does not know.

    Args:
        keys: The keys: the first signs, and what any of them has signed is verified.
        scope: The name of the app, the path, the owner of the thread, and the thread, which all signatures are for.
        is_of_process: Whether only this process has the key.
    """

    def __init__(self, keys: Sequence[bytes], scope: tuple[str, ...], *, is_of_process: bool) -> None:
        self._keys, self._scope, self._is_of_process = keys, scope, is_of_process

    def sign(self, interrupt_id: str) -> str:
        """Return the id under which the caller gets an interrupt."""
        return self._signed(interrupt_id, self._keys[0])

    def verified(self, answered_id: str) -> str:
        """Return the id of the interrupt that a caller answers.

        Raises:
            UnverifiedError: It was never signed.
        """
        interrupt_id, given = answered_id.rpartition(".")[0], _encoded(answered_id)
        if not any(hmac.compare_digest(_encoded(self._signed(interrupt_id, key)), given) for key in self._keys):
            how = "; processes of one server need the same secret=" if self._is_of_process else ""
            raise UnverifiedError(f"resume answers {quoted(answered_id)}, which was not asked in this thread{how}")
        return interrupt_id

    def _signed(self, interrupt_id: str, key: bytes) -> str:
        """Return an id with its signature, which counts for no other app, owner and thread."""
        if self._is_of_process:
            _warn_of_process_key()
        signed = json.dumps(["interrupt", *self._scope]).encode() + b"\n" + _encoded(interrupt_id)
        return f"{interrupt_id}.{hmac.digest(key, signed, 'sha256').hex()}"


@cache
def _warn_of_process_key() -> None:
    """Log, once in a process, that other processes will refuse the answers to the interrupts of this one."""
    _logger.warning(
        "interrupts are signed with a key of this process: after a restart, and in other processes, answers to them "
        "are refused; give all processes of a server the same agent_app(..., secret=)"
    )


def _encoded(text: str) -> bytes:
    """Return a text as bytes; the JSON of some frameworks has half characters."""
    return text.encode(errors="surrogatepass")


def keys_of(secret: object) -> tuple[bytes, ...]:
    """Return the keys of the `secret=` option, the one that signs first.

    Raises:
        UsageError: One is neither text nor bytes, or so short that it can be guessed; or there is none.
    """
    given = cast("Sequence[object]", secret) if isinstance(secret, list | tuple) else [secret]
    keys = tuple(each.encode() if isinstance(each, str) else each for each in given)
    if not keys or not all(isinstance(each, bytes) and len(each) >= _SHORTEST for each in keys):
        raise UsageError(
            f"the secret must be text or bytes, at least {_SHORTEST} bytes long, or a list of them, of which the first "
            "signs; secrets.token_urlsafe() makes one"
        )
    return cast("tuple[bytes, ...]", keys)
