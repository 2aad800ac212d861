"""The arguments of a call in the fields of its tool's schema, as a person sees and changes them on a page (SEC-3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from agui_client._core.protocol.patch import is_same_json
from agui_client._rendering.escaping import json_text
from agui_client._rendering.form_controls import Drawing, Field, rows_of
from agui_client._rendering.forms import FormError, call_form, read_arguments

_ARGUMENTS = "arguments"
"""The name of the field for arguments as JSON; those of a form are JSON pointers."""


class CallFields:
    """The fields for the arguments of a call; one for JSON if a form would not show each of them as it is.

    Args:
        schema: The schema of the arguments.
        arguments: The arguments, which stand in the fields.
    """

    def __init__(self, schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
        self._schema, self._arguments = schema, arguments
        self._form = call_form(schema, arguments)
        text = json_text(arguments)
        if self._form is None:
            field = Field(_ARGUMENTS, "Arguments (JSON)", text, text, control="json", rows=rows_of(text))
            drawn: dict[str, Any] = {"fields": [asdict(field)], "templates": {}}
        else:
            drawn = Drawing(self._form).as_json()
        # A member that has no field is seen in the text of the call alone.
        has_more = self._form is not None and bool(self._form.kept)
        self.drawn: Mapping[str, Any] = {**drawn, "is_call": True, "call": text, "is_call_open": has_more}
        """The drawn parts: the fields, and the call as it was asked for."""

    def changed(self, values: Mapping[str, str]) -> Mapping[str, Any] | None:
        """Read the arguments that a person changed; None if they are as they were asked for.

        Args:
            values: The texts in the fields, by their names.

        Raises:
            FormError: They do not fit.
        """
        if self._form is not None:
            read: Mapping[str, Any] = self._form.read(values)
        else:
            try:
                read = read_arguments(values.get(_ARGUMENTS, ""), self._schema)
            except ValueError as error:
                raise FormError({_ARGUMENTS: str(error)}, {}) from None
        return None if is_same_json(read, self._arguments) else read
