"""Tokens as money on pages: prices as the command line takes them, and the money beside the tokens of a run.

To change

- the prices of the command line, or the money of a recorded run: this module; `_core/ground/prices.py` works out what
  tokens cost
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from ag_ui.core import TokenUsage
from pydantic import ValidationError

from agui_client._core.ground.prices import Prices, cost_of
from agui_client.errors import UsageError

_KNOWN = "known"


def read_prices(given: Iterable[str]) -> dict[str, tuple[float, float]] | None:
    """Read prices as the command line takes them.

    Args:
        given: Texts such as "gpt-5=1.25/10"; "known" stands for the prices of genai-prices.

    Returns:
        The prices; None if none are given, and so no money is counted.

    Raises:
        UsageError: A text is not a price.
    """
    prices: dict[str, tuple[float, float]] = {}
    texts = list(given)
    for text in texts:
        if text == _KNOWN:
            continue
        model, _, both = text.rpartition("=")
        try:
            first, second = map(float, both.split("/"))
        except ValueError:
            first = second = math.nan
        if not model or not (math.isfinite(first + second) and first >= 0 and second >= 0):
            raise UsageError(f"{text!r} is not a price: write model=in/out, as in gpt-5=1.25/10, per million tokens")
        prices[model] = first, second
    return prices if texts else None


def with_cost(usage: Mapping[str, Any], prices: Prices | None) -> dict[str, Any]:
    """Return tokens with their `cost`; without it if the model has no price, or a number of tokens was not reported.

    Args:
        usage: The JSON of a `TokenUsage`.
        prices: The prices; None for no money.
    """
    if prices is None:
        return dict(usage)
    try:
        cost = cost_of([TokenUsage.model_validate(usage)], prices)
    except ValidationError:  # recordings of others may have anything
        return dict(usage)
    return dict(usage) if cost.unknown else {**usage, "cost": float(cost.dollars)}
