"""The functions that are called after each change of a conversation's messages or state.

To change

- who watches a conversation: `Listeners` here, whose `add` observables and edits of the state call. What changes a
  conversation is in `changes`; the engine asks at each event whether anybody listens
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from threading import get_ident
from typing import TypeAlias

from agui_client._core.protocol.reduce import Change
from agui_client.errors import UsageError

Listener: TypeAlias = Callable[[Change], None]
"""Called with the parts that changed."""

_MOST_NESTED = 20
"""The calls of listeners inside each other: a function that corrects what it watches needs two or three."""


# A list, as its truth is asked at each event, and costs no call of a function then.
class Listeners(list[Listener]):
    """The functions that watch one conversation."""

    def __init__(self) -> None:
        super().__init__()
        # Calls inside each other, by threads.
        self._notifying: Counter[int] = Counter()

    def add(self, listener: Listener) -> Callable[[], None]:
        """Call a function after every change to messages or state.

        Args:
            listener: Called with the parts that changed.

        Returns:
            A function that ends it; idempotent.
        """
        self.append(listener)

        def stop() -> None:
            """Remove the listener."""
            with suppress(ValueError):
                self.remove(listener)

        return stop

    def notify(self, change: Change) -> None:
        """Call the listeners.

        Args:
            change: The parts that changed.

        Raises:
            UsageError: A listener changes what it is called with, and is called with that change, and so on.
        """
        if not self or not change:
            return
        thread = get_ident()
        if self._notifying[thread] == _MOST_NESTED:
            raise UsageError(
                f"a function that watches the {'state' if change & Change.STATE else 'messages'} changes it with each "
                f"call, and was called {_MOST_NESTED} times inside itself; change it only where it differs from what "
                "it should be"
            )
        self._notifying[thread] += 1
        try:
            # A copy, as a listener may remove itself.
            for listener in tuple(self):
                listener(change)
        finally:
            self._notifying[thread] -= 1
            if not self._notifying[thread]:
                del self._notifying[thread]
