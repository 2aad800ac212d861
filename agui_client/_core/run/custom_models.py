"""The types of the application for the values of CUSTOM events, by the names of the events (PASS-2).

To change

- the CUSTOM events that a result keeps: `Outcome.custom`; this module makes objects of their values
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from pydantic import ValidationError
from pydantic_core import to_json

from agui_client._core.ground.json_pointers import pointer
from agui_client._core.ground.type_adapters import type_adapter
from agui_client._core.protocol.open_items import quoted
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from ag_ui.core import CustomEvent

    from agui_client._core.protocol.warnings import WarningLog


class CustomModels:
    """Reads the values of CUSTOM events as types of the application.

    Args:
        models: The types, by the names of the events.

    Raises:
        UsageError: This is not a mapping of names to types that pydantic can read.
    """

    def __init__(self, models: object) -> None:
        if not isinstance(models, Mapping):
            raise UsageError(f"custom_models= takes {{name of the event: type}}, not {models!r}")
        given: Mapping[Any, Any] = cast("Any", models)
        if wrong := [name for name in given if not isinstance(name, str)]:
            raise UsageError(f"custom_models= takes names of events, not {wrong[0]!r}")
        self._adapters = {
            name: type_adapter(model, f"custom_models={{{name!r}: ...}}") for name, model in given.items()
        }

    def typed(self, event: CustomEvent, warnings: WarningLog) -> CustomEvent:
        """Return an event whose value is an object of its type; as it is if it has none, or does not fit.

        Args:
            event: The event, with JSON.
            warnings: The log that gets a value that does not fit.
        """
        adapter = self._adapters.get(event.name)
        if adapter is None:
            return event
        try:
            value = adapter.validate_json(to_json(event.value, inf_nan_mode="constants"))
        except ValidationError as misfit:
            first = misfit.errors(include_url=False, include_context=False, include_input=False)[0]
            path = ""
            for member in ("value", *first["loc"]):
                path = pointer(path, member)
            problem = f"the value of CUSTOM {quoted(event.name)} does not fit its model: {first['msg']}; it stays JSON"
            warnings.add("PASS-2", problem, event_type="CUSTOM", path=path)
            return event
        return event.model_copy(update={"value": value})
