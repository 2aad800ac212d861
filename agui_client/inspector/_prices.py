"""Tokens as money, with prices that the user gave; the package knows no price of any model.

To change

- the prices of tokens: this module: the user gives them, to `inspect(prices=)` or `--price`, and `with_cost` adds the
  money to the tokens of a run; no price of a model is stored
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from agui_client.errors import UsageError

Prices: TypeAlias = Mapping[str, tuple[float, float]]
"""The prices of a million tokens by the names of models: of the tokens that go in, and of those that come out."""
_MILLION = 1_000_000


def read_prices(given: Iterable[str]) -> dict[str, tuple[float, float]]:
    """Read prices as the command line takes them.

    Args:
        given: Texts such as "gpt-5=1.25/10".

    Raises:
        UsageError: A text is no price.
    """
    prices: dict[str, tuple[float, float]] = {}
    for text in given:
        model, _, both = text.rpartition("=")
        try:
            first, second = map(float, both.split("/"))
        except ValueError:
            first = second = math.nan
        if not model or not (math.isfinite(first + second) and first >= 0 and second >= 0):
            raise UsageError(f"{text!r} is no price: write model=in/out, as in gpt-5=1.25/10, per million tokens")
        prices[model] = first, second
    return prices


def with_cost(usage: Mapping[str, Any], prices: Prices) -> dict[str, Any]:
    """Return tokens with their `cost`; without it if the model has no price, or a number of tokens was not reported.

    Args:
        usage: The JSON of a `TokenUsage`. Tokens that were cached have the price of those that go in.
        prices: The prices.
    """
    price = prices.get(str(usage.get("model") or usage.get("provider")))
    first, second = usage.get("inputTokens"), usage.get("outputTokens")
    if price is None or not isinstance(first, int) or not isinstance(second, int):
        return dict(usage)
    return {**usage, "cost": (first * price[0] + second * price[1]) / _MILLION}
