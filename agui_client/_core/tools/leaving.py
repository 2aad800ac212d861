"""Leaving a call when its process ends: no function begins any more, and those that were begun come to an end."""

from __future__ import annotations

from collections.abc import Callable

import anyio


class Leaving:
    """The functions of a call that were begun and whose results are not saved, and what is done when there is none.

    Args:
        team: The same of the team that the call is one of: it has the functions of its members, too.
    """

    def __init__(self, team: Leaving | None = None) -> None:
        self._team, self._at_work = team, 0
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
        return self._leave is not None or (self._team is not None and self._team.has_begun)

    async def hold(self) -> None:
        """Wait for the end of the call if it is being left; a member's continues until its team has nothing at work."""
        if self.has_begun:
            await anyio.sleep_forever()

    async def admit(self) -> None:
        """Note that a function begins; wait for the end of the call if it is being left."""
        await self.hold()
        self._add(1)

    def note_saved(self) -> None:
        """Note that the result of a function is saved, or that there is none, as it was stopped."""
        self._add(-1)

    def note_all_saved(self) -> None:
        """Note that the results of all functions are saved."""
        self._add(-self._at_work)

    def _add(self, begun: int) -> None:
        self._at_work += begun
        if self._team is not None:
            self._team._add(begun)
        self._leave_if_quiet()

    def _leave_if_quiet(self) -> None:
        if self._leave is not None and not self._at_work:
            self._leave()
