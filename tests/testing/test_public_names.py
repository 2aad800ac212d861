"""The test kit's public namespace is exact."""

from __future__ import annotations

import pytest

import agui_client
import agui_client.testing


def test_all_is_sorted_and_every_name_is_there() -> None:
    names = agui_client.testing.__all__
    assert names == sorted(names)
    assert len(set(names)) == len(names)
    assert all(hasattr(agui_client.testing, name) for name in names)


@pytest.mark.parametrize("name", ["Store", "agent_app", "mcp_server", "serve_bytes", "record"])
def test_a_name_of_another_public_module_says_where_it_lives(name: str) -> None:
    with pytest.raises(ImportError, match=rf"{name} is in (agui_client\.\w+): from \1 import {name}"):
        getattr(agui_client, name)
    with pytest.raises(AttributeError, match="no attribute 'Stroe'"):
        getattr(agui_client, "Stroe")  # noqa: B009 - the name is wrong on purpose
