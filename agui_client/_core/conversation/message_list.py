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

    # Annotated, as no type checker knows the type of what takes the place of a method.
    append: Any = _refuse
    extend: Any = _refuse
    insert: Any = _refuse
    remove: Any = _refuse
    pop: Any = _refuse
    clear: Any = _refuse
    reverse: Any = _refuse
    sort: Any = _refuse
    __setitem__: Any = _refuse
    __delitem__: Any = _refuse
    __imul__: Any = _refuse
    __iadd__: Any = _refuse

    def __reduce_ex__(self, protocol: object) -> tuple[type[list[Message]], tuple[list[Message]]]:
        return list, ([*self],)
