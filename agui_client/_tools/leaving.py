"""How a call is left when its process ends: no function begins any more, and those that were begun come to an end."""

from __future__ import annotations

from collections.abc import Callable

import anyio


class Leaving:
    """The functions of a call that were begun and whose results are not saved, and what is done when there is none."""

    def __init__(self) -> None:
        self._at_work = 0
        self._leave: Callable[[], object] | None = None

    def begin(self, leave: Callable[[], object]) -> None:
        """Begin no function any more, and call one as soon as the results of those that were begun are saved.

        Args:
            leave: Stops the call; called in the loop of the call.
        """
        self._leave = leave
        self._leave_if_quiet()

    @property
    def has_begun(self) -> bool:
        """Whether the call is being left."""
        return self._leave is not None

    async def admit(self) -> None:
        """Note that a function begins; wait for the end of the call if it is being left."""
        if self._leave is not None:
            await anyio.sleep_forever()
        self._at_work += 1

    def note_saved(self) -> None:
        """Note that the result of a function is saved, or that there is none, as it was stopped."""
        self._at_work -= 1
        self._leave_if_quiet()

    def note_all_saved(self) -> None:
        """Note that the results of all functions are saved."""
        self._at_work = 0
        self._leave_if_quiet()

    def _leave_if_quiet(self) -> None:
        if self._leave is not None and not self._at_work:
            self._leave()
