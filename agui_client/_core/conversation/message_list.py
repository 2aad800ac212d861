"""The list of messages that an application gets: one to look at, as a change of it would reach no conversation."""

from __future__ import annotations

from typing import Any, NoReturn

from ag_ui.core import Message

from agui_client.errors import UsageError


class MessageList(list[Message]):
    """The messages of a conversation as they were at one look; copies, slices and sums of it are plain lists."""

    __slots__ = ()

    def _refuse(self, *args: Any, **options: Any) -> NoReturn:
        """Refuse a change, which would be lost.

        Raises:
            UsageError: In any case.
        """
        raise UsageError(
            "these messages are a copy, so nothing was changed: agent.add_messages([...]) adds some, "
            "agent.set_messages([...]) replaces them, a hook returns Mutation(messages=[...]); for a list of your own, "
            "write list(...)"
        )

    append = extend = insert = remove = pop = clear = reverse = _refuse
    __setitem__ = __delitem__ = __imul__ = _refuse
    # Their types are overloaded, which no single function fits.
    sort: Any = _refuse
    __iadd__: Any = _refuse

    def __reduce_ex__(self, protocol: object) -> tuple[type[list[Message]], tuple[list[Message]]]:
        return list, ([*self],)
