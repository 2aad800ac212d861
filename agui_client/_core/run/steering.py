"""Steering: messages of the user that a call gets while it is running, for its next run; and the turn of a call.

They come from any thread, at any moment. Under one lock it is decided whether a message still reaches the call: once
the call has seen that there is none left, further ones are refused, so that none is lost.

To change

- what becomes of `steer()`: this module has the messages; `prepare_next_run` in `_core/run/between_runs.py` decides
  between two runs whether another one follows
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from agui_client._core.protocol.prompts import prompt_messages
from agui_client._core.run.scope import CURRENT_SCOPE
from agui_client.errors import RunInProgressError, UsageError

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from ag_ui.core import Message

    from agui_client._core.conversation.turns import RunningCall, Turns, WhenBusy
    from agui_client._core.protocol.prompts import Prompt

_ANSWERING: ContextVar[tuple[object, ...]] = ContextVar("agui_client.answering", default=())
"""The agents for whose runs the present code is a tool, or asks a person."""


class Steering:
    """The messages that a call was given while it was running, and that no run was sent yet."""

    def __init__(self) -> None:
        self.lock: threading.RLock = threading.RLock()
        """Held while it is decided whether a message still reaches the call."""
        self._messages: list[Message] = []
        self._is_closed = False

    @property
    def unsent(self) -> list[Message]:
        """The messages that wait for a run; after the end of the call, those that none was sent."""
        return list(self._messages)

    def add(self, prompt: Prompt) -> None:
        """Add the messages of a prompt.

        Raises:
            UsageError: The call takes no message any more, or it is not a prompt.
        """
        messages = prompt_messages(prompt)
        if not messages:
            raise UsageError("steer() takes a prompt: text, a message, or a list with attachments")
        with self.lock:
            if self._is_closed:
                raise UsageError("the run has ended, so nothing can steer it; ask with run_agent() or stream()")
            self._messages += messages

    def clear(self) -> None:
        """Forget the messages, which are in the conversation now."""
        with self.lock:
            self._messages = []

    def close(self) -> None:
        """Accept no message any more."""
        with self.lock:
            self._is_closed = True


@contextmanager
def answering(owner: object) -> Generator[None]:
    """Know, in the block and all that it begins, that an agent's run waits for tools or people.

    Args:
        owner: The agent.
    """
    token = _ANSWERING.set((*_ANSWERING.get(), owner))
    try:
        yield
    finally:
        _ANSWERING.reset(token)


async def acquire_turn(
    turns: Turns, owner: object, when_busy: WhenBusy, running: RunningCall, stack: AsyncExitStack
) -> None:
    """Wait until the conversation is one call's alone.

    Args:
        turns: The turns of the conversation.
        owner: The agent.
        when_busy: What the call does while another one is in progress.
        running: Takes what others want of the call while it has its turn.
        stack: The blocks of the call; its turn is over when they are left.

    Raises:
        RunInProgressError: The call would wait for the one that it is made in.
    """
    around, owners = CURRENT_SCOPE.get(), [*_ANSWERING.get()]
    while around is not None:
        owners.append(around.owner)
        around = around.parent
    if when_busy != "raise" and any(each is owner for each in owners):
        raise RunInProgressError(
            "the prompt would wait for the run that it is made in, and that run for it; steer() that run, or clone() "
            "the agent"
        )
    await turns.acquire(running, when_busy, stack)
