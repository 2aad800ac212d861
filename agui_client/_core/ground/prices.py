"""Tokens as money: prices that the user gives, and those of genai-prices (extra `cost`) for all other models.

The package itself knows no price of any model.

To change

- what a token costs, or what counts as unknown: `cost_of` here; who asks it: `RoundLimits` (a turn's limit),
  `RunResult.cost`, batches, evaluations, and the pages of the inspector
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pydantic import Field, TypeAdapter, ValidationError

from agui_client._core.ground.field_docs import Record
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from ag_ui.core import TokenUsage

Prices: TypeAlias = Mapping[str, tuple[float, float]]
"""The prices of a million tokens by the names of models: of the tokens that go in, and of those that come out. "*" is
for models that have no price otherwise."""

_Number: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_MILLION = 1_000_000
_OTHERS = "*"
_DOLLARS = re.compile(r"(\d+(?:\.\d+)?) USD", re.ASCII)
_UNREPORTED = "tokens that were not reported"


@dataclass(frozen=True, slots=True)
class Cost(Record):
    """The price of tokens, as far as it is known; its text is for people."""

    dollars: Decimal
    """The price in US dollars, or in the currency of the prices that were given, of all tokens whose price is known."""
    unknown: tuple[str, ...] = ()
    """The models that have no price, whose tokens are not in the sum; "tokens that were not reported" is one of them if
    an agent reported none."""
    assumed: tuple[str, ...] = ()
    """The models that have no price, whose tokens count with that of "*"."""

    def __str__(self) -> str:
        missing = f"; there is no price of {', '.join(self.unknown)}" if self.unknown else ""
        guessed = f"; {', '.join(self.assumed)} at the price of '*'" if self.assumed else ""
        return f"{dollar_text(self.dollars)}{missing}{guessed}"


def dollar_text(dollars: Decimal | float) -> str:
    """Return money for people, small amounts with four decimals."""
    return f"{dollars:.2f} USD" if dollars >= 1 or not dollars else f"{dollars:.4f} USD"


def cost_of(usage: Iterable[TokenUsage], prices: Prices | None = None) -> Cost:
    """Work out what tokens cost.

    A model has the price that is given for it, or else that of genai-prices, or else the one given for "*". Prices that
    are given make no difference between tokens that were cached and others; those of genai-prices do.

    Args:
        usage: The tokens. If there is none, the cost is not known.
        prices: The prices that are given.
    """
    given, total = prices or {}, Decimal()
    unknown, assumed = dict[str, None](), dict[str, None]()
    used = list(usage)
    for each in used:
        name = str(each.model or each.provider or "a model without a name")
        own = given.get(name)
        # A count that nobody reported is not zero (USAGE-1).
        is_reported = each.input_tokens is not None and each.output_tokens is not None
        found = (_price_at(each, own) if own else _listed_price(each)) if is_reported else None
        if found is None:
            (unknown if _OTHERS not in given else assumed)[name if is_reported else _UNREPORTED] = None
            found = _price_at(each, given.get(_OTHERS, (0, 0)))
        total += found
    if not used:
        (unknown if _OTHERS not in given else assumed)[_UNREPORTED] = None
    return Cost(total, tuple(unknown), tuple(assumed))


def dollars_in(text: Any, what: str) -> Decimal:
    """Read an amount of money.

    Args:
        text: The amount, such as "2.00 USD"; anything else is refused.
        what: The name of the option, for the message.

    Raises:
        UsageError: It is not one.
    """
    found = _DOLLARS.fullmatch(text) if isinstance(text, str) else None
    if found is None or not (amount := Decimal(found[1])):
        raise UsageError(f'{what} is an amount of US dollars above zero, such as "2.00 USD", not {text!r}')
    return amount


def check_prices(prices: Any, what: str) -> None:
    """Check prices before they are needed, and load those of genai-prices, which takes a quarter of a second.

    Args:
        prices: The prices that are given, or None; anything else is refused.
        what: The name of the option, for the message.

    Raises:
        UsageError: They are none, or none are given and genai-prices is not installed.
    """
    try:
        _adapter().validate_python(prices)
    except ValidationError as error:
        how = f'{what} maps names of models to two numbers, such as {{"gpt-5": (1.25, 10)}}, not {prices!r}'
        raise UsageError(how) from error
    if _calculator() is None and not prices:
        raise UsageError(f"costs need prices: pip install 'agui-client[cost]', or give {what}")


@cache
def _adapter() -> TypeAdapter[Any]:
    return TypeAdapter(Mapping[str, tuple[_Number, _Number]] | None)


def _price_at(usage: TokenUsage, price: tuple[float, float]) -> Decimal:
    """Return what the tokens that were reported cost at a price for each million."""
    counts = (usage.input_tokens or 0, usage.output_tokens or 0)
    return sum((count * Decimal(str(each)) for count, each in zip(counts, price, strict=True)), Decimal()) / _MILLION


def _listed_price(usage: TokenUsage) -> Decimal | None:
    """Return what tokens cost by genai-prices; None if it does not know the model, or is not installed."""
    calculate = _calculator()
    if calculate is None or not usage.model:
        return None
    # Agents name providers as they like: a model that is not found there is looked for everywhere.
    for provider in dict.fromkeys((usage.provider or None, None)):
        try:
            return calculate(usage, provider)
        except (LookupError, ValueError):
            continue
    return None


@cache
def _calculator() -> Callable[[TokenUsage, str | None], Decimal] | None:
    try:
        from genai_prices import Usage, calc_price
    except ModuleNotFoundError:
        return None

    def calculate(usage: TokenUsage, provider: str | None) -> Decimal:
        """Return the price of tokens."""
        counts = Usage(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cached_input_tokens,
            cache_write_tokens=usage.cache_write_input_tokens,
        )
        return calc_price(counts, usage.model or "", provider_id=provider).total_price

    return calculate
