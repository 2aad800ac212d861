"""Differences of random JSON values; tests/programs/soak.py --patches compares many more."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from support.json_patches import difference_findings


@given(st.integers(0, 2**32))
def test_the_difference_of_two_values_makes_the_one_of_the_other(seed: int) -> None:
    random = Random(seed)
    assert [found for _ in range(10) for found in difference_findings(random)] == []
