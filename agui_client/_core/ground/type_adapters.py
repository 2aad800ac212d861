"""The types of an application that pydantic reads for it: of replies, answers, the state, CUSTOM events, handovers."""

from __future__ import annotations

from typing import Any, cast

from pydantic import PydanticUserError, TypeAdapter

from agui_client.errors import UsageError


def type_adapter(given: Any, option: str, *, is_read_now: bool = False) -> TypeAdapter[Any]:
    """Return the adapter of a type.

    Args:
        given: A pydantic model, a dataclass, a TypedDict, or any other type; or a `TypeAdapter` of it.
        option: The option that takes it, for the refusal.
        is_read_now: Whether it is read at once, so that the types that it names have to be defined.

    Raises:
        UsageError: pydantic cannot read it.
    """
    name = given.__name__ if isinstance(given, type) else repr(given)
    refusal = f"{option} takes a type that pydantic can read, not {name}"
    if isinstance(given, str):
        # pydantic reads it as a name, and may find another thing of that name.
        raise UsageError(f"{refusal}; give the type itself, not its name")
    try:
        adapter: TypeAdapter[Any] = cast("Any", given) if isinstance(given, TypeAdapter) else TypeAdapter(given)
        if is_read_now:
            adapter.rebuild()
    except NameError as error:
        raise UsageError(f"{refusal}: {error.name or 'a name'} in it is not defined") from error
    except PydanticUserError as error:
        raise UsageError(refusal) from error
    return adapter
