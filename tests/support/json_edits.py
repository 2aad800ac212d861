"""Random JSON values, and random edits of them."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from agui_client._core.protocol.schema import is_array, is_object
from agui_client.state import ABSENT


class Values:
    """Random values whose scalars are all different, so that each can be followed through a merge."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self._scalars = 0

    def new(self, depth: int) -> Any:
        """A new value."""
        kind = self.random.choice(["scalar", "object", "array"]) if depth else "scalar"
        if kind == "object":
            return {name: self.new(depth - 1) for name in self.random.sample("abcd", self.random.randint(0, 3))}
        if kind == "array":
            return [self.new(depth - 1) for _ in range(self.random.randint(0, 4))]
        self._scalars += 1
        return f"v{self._scalars}"

    def edited(self, value: Any) -> Any:
        """A copy with one edit somewhere in it."""
        chance = self.random.random()
        if is_object(value) and chance < 0.9:
            name = self.random.choice("abcde")
            if name not in value:
                return {**value, name: self.new(1)}
            if chance < 0.2:
                return {key: item for key, item in value.items() if key != name}
            return {**value, name: self.edited(value[name])}
        if is_array(value) and chance < 0.9:
            index = self.random.randint(0, len(value))
            if index == len(value) or chance < 0.2:
                return [*value[:index], self.new(1), *value[index:]]
            changed = [] if chance < 0.4 else [self.edited(value[index])]
            return [*value[:index], *changed, *value[index + 1 :]]
        return self.new(1)

    def sides(self) -> tuple[Any, Any, Any]:
        """A base and what two sides made of it."""
        base = self.new(4)
        sides = [base, base]
        for number in (0, 1):
            for _ in range(self.random.randint(0, 3)):
                sides[number] = self.edited(sides[number])
        return base, *sides


def scalars(value: Any) -> Counter[str]:
    """The scalars in a value, members by name so that an empty container counts as well."""
    return Counter(_scalars(value))


def _scalars(value: Any) -> list[str]:
    if is_object(value):
        return [each for item in value.values() for each in _scalars(item)]
    if is_array(value):
        return [each for item in value for each in _scalars(item)]
    return [] if value is ABSENT else [value]
