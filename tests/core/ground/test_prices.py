"""Tokens as money: prices that are given, those of genai-prices, and what is said of models that have none."""

from __future__ import annotations

import sys
from decimal import Decimal
from typing import Any

import genai_prices
import pytest
from ag_ui.core import TokenUsage

from agui_client import ToolLimits, UsageError
from agui_client._core.ground import prices as module
from agui_client._core.ground.prices import cost_of
from agui_client.batch import Budget
from agui_client.testing import ScriptedAgent, text, tool_call, turn
from agui_client.types import Prices
from support.tool_rounds import Ran

GPT = TokenUsage(provider="openai", model="gpt-5", input_tokens=1_000, output_tokens=100)
OWN = TokenUsage(model="own", input_tokens=1_000_000, output_tokens=100_000)


def test_a_model_costs_what_genai_prices_says_and_cached_tokens_cost_less() -> None:
    cached = GPT.model_copy(update={"cached_input_tokens": 800})
    counts = genai_prices.Usage(input_tokens=1_000, output_tokens=100, cache_read_tokens=800)
    listed = genai_prices.calc_price(counts, "gpt-5", provider_id="openai").total_price
    assert cost_of([cached]).dollars == listed < cost_of([GPT]).dollars
    assert cost_of([cached]).unknown == cost_of([cached]).assumed == ()


def test_a_model_is_found_whatever_name_its_provider_has() -> None:
    renamed = [GPT.model_copy(update={"provider": name}) for name in (None, "our gateway")]
    assert [cost_of([each]) for each in renamed] == [cost_of([GPT])] * 2


@pytest.mark.parametrize(
    ("prices", "expected"),
    [
        (None, "0.00 USD; there is no price of own"),
        ({"own": (2, 10)}, "3.00 USD"),
        ({"*": (1, 5)}, "1.50 USD; own at the price of '*'"),
        ({"*": (0, 0)}, "0.00 USD; own at the price of '*'"),
        ({"own": (2, 10), "*": (50, 50)}, "3.00 USD"),
    ],
    ids=str,
)
def test_a_model_without_a_price_is_named_and_counts_as_the_caller_says(prices: Prices | None, expected: str) -> None:
    assert str(cost_of([OWN], prices)) == expected


def test_a_price_that_is_given_comes_before_that_of_genai_prices() -> None:
    assert cost_of([GPT], {"gpt-5": (1_000, 0), "*": (0, 0)}).dollars == Decimal(1)


@pytest.mark.parametrize(
    "usage",
    [
        [],
        [TokenUsage(model="gpt-5")],
        [TokenUsage(model="gpt-5", total_tokens=5)],
        [TokenUsage(model="gpt-5", input_tokens=5)],
        [GPT.model_copy(update={"cached_input_tokens": 5_000})],
    ],
    ids=str,
)
def test_tokens_that_were_not_reported_or_contradict_themselves_are_no_price_of_zero(usage: list[TokenUsage]) -> None:
    assert cost_of(usage).unknown in {("tokens that were not reported",), ("gpt-5",)}
    assert cost_of(usage, {"*": (0, 0)}).unknown == ()


@pytest.mark.parametrize("amount", ["2", "2.00 EUR", "0 USD", "-1 USD", "nan USD", "1e3 USD", 2, "٢ USD"])
def test_an_amount_that_is_none_is_refused(amount: Any) -> None:
    for limit, name in ((ToolLimits, "ToolLimits"), (Budget, "Budget")):
        with pytest.raises(
            UsageError, match=rf'^{name}\.cost is an amount of US dollars above zero, such as "2.00 USD"'
        ):
            limit(cost=amount)


@pytest.mark.parametrize(
    "prices", [{"m": 1}, {"m": (1,)}, {"m": (1, -1)}, {"m": (1, float("inf"))}, "known", [1]], ids=str
)
def test_prices_that_are_none_are_refused(prices: Any) -> None:
    for limit in (ToolLimits, Budget):
        with pytest.raises(UsageError, match="maps names of models to two numbers"):
            limit(prices=prices)


def test_without_genai_prices_the_extra_is_named_and_prices_that_are_given_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    module._calculator.cache_clear()  # pyright: ignore[reportPrivateUsage]
    try:
        with pytest.raises(UsageError, match=r"pip install 'agui-client\[cost\]', or give ToolLimits"):
            ToolLimits(cost="1 USD")
        assert ToolLimits(cost="1 USD", prices={"own": (2, 10)}).counts_money
        assert str(cost_of([GPT, OWN], {"own": (2, 10)})) == "3.00 USD; there is no price of gpt-5"
    finally:
        module._calculator.cache_clear()  # pyright: ignore[reportPrivateUsage]


def test_without_limits_of_money_no_run_works_out_a_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_calculator", lambda: pytest.fail("prices were looked up"))
    ran = Ran()
    agent = ScriptedAgent(turn(tool_call("look"), usage=[GPT]), turn(text("Done."), usage=[OWN]), tools=ran.tools)
    assert agent.run_agent_sync("Hi").text == "Done."
