"""Limits of tools that would let nothing happen are refused when they are given."""

from __future__ import annotations

from dataclasses import fields

import pytest

from agui_client import ToolLimits, UsageError


@pytest.mark.parametrize("name", [each.name for each in fields(ToolLimits) if each.name not in ("cost", "prices")])
@pytest.mark.parametrize("value", [0, -1, True, "3"])
def test_a_limit_is_a_number_above_zero(name: str, value: object) -> None:
    limits: dict[str, object] = {name: value}
    with pytest.raises(UsageError, match=rf"ToolLimits.{name} is a number above zero, or None, not {value!r}"):
        ToolLimits(**limits)  # type: ignore[arg-type]
