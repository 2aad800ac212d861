"""The test kit's public namespace is exact."""

from __future__ import annotations

import agui_client.testing


def test_all_is_sorted_and_every_name_is_there() -> None:
    names = agui_client.testing.__all__
    assert names == sorted(names)
    assert len(set(names)) == len(names)
    assert all(hasattr(agui_client.testing, name) for name in names)
