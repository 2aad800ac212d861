"""The tree of a surface as it is drawn: components with worked-out properties, templates once for each item.

`draw` starts at the component `root`. Depth, number and cycles are bounded here, values in `Evaluation`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agui_client._core.protocol.schema import is_array, is_object
from agui_client.a2ui._catalog import COMPONENTS, Kind, Property
from agui_client.a2ui._data import MISSING, get, joined
from agui_client.a2ui._evaluation import Evaluation
from agui_client.a2ui._words import MOST_DEPTH, MOST_DRAWN

ROOT = "root"
"""The id of the outermost component."""


@dataclass(slots=True)
class Drawn:
    """A component at one place of a surface, with the values that it has there."""

    id: str
    """The id of the component."""
    component: str
    """The name of the component, such as "Text"; empty if the surface does not have it (yet)."""
    at: str
    """The path of the item of a list that it is drawn for; `/` outside of lists."""
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    """The properties, worked out; children are `Drawn`, what has no value is left out."""
    paths: dict[str, str] = field(default_factory=dict[str, str])
    """The paths of the data that properties are bound to."""
    action: Mapping[str, Any] | None = None
    """The action for when it is pressed, as the agent wrote it; None if there is none."""
    failed: list[str] = field(default_factory=list[str])
    """The messages of the checks that do not hold."""
    unchecked: list[str] = field(default_factory=list[str])
    """The messages of the checks that only the agent can make."""
    note: str = ""
    """Why nothing is drawn here; empty if something is."""

    @property
    def children(self) -> Iterator[Drawn]:
        """The components in it, in order."""
        for value in self.values.values():
            if isinstance(value, Drawn):
                yield value
            elif is_array(value):
                for item in value:
                    child = item.get("child") if is_object(item) else item
                    if isinstance(child, Drawn):
                        yield child

    def walk(self) -> Iterator[Drawn]:
        """Iterate over this component and everything in it."""
        yield self
        for child in self.children:
            yield from child.walk()


def draw(components: Mapping[str, Mapping[str, Any]], evaluation: Evaluation) -> Drawn:
    """Return the tree of a surface.

    Args:
        components: The components by id.
        evaluation: Works out values, and takes note of problems.
    """
    return _Drawer(components, evaluation).drawn(ROOT, "/", ())


class _Drawer:
    """Draws one tree."""

    def __init__(self, components: Mapping[str, Mapping[str, Any]], evaluation: Evaluation) -> None:
        self._components = components
        self._evaluation = evaluation
        self._count = 0

    def drawn(self, component_id: str, at: str, above: tuple[tuple[str, str], ...]) -> Drawn:
        """Draw a component at a place.

        Args:
            at: The path of the item that it is drawn for.
            above: The ids and paths of the components around it.
        """
        # What is not drawn counts, too: it is work.
        self._count += 1
        if note := self._refusal(component_id, at, above):
            self._evaluation.note(note)
            return Drawn(component_id, "", at, note=note)
        if (component := self._components.get(component_id)) is None:
            return Drawn(component_id, "", at, note="not sent yet")
        name = str(component.get("component", ""))
        node = Drawn(component_id, name, at)
        properties = COMPONENTS.get(name)
        if properties is None:
            self._evaluation.note_unknown(name)
            properties = _GUESSED
        inside = (*above, (component_id, at))
        for each, value in component.items():
            if each not in {"id", "component"}:
                self._add(node, each, value, properties.get(each, _COMMON.get(each, _OTHER)), inside)
        return node

    def _refusal(self, component_id: str, at: str, above: tuple[tuple[str, str], ...]) -> str:
        if self._count > MOST_DRAWN:
            return f"the surface draws more than {MOST_DRAWN:,} components; the others are left out"
        if (component_id, at) in above:
            return f"the component {component_id[:100]!r} is inside itself"
        if len(above) >= MOST_DEPTH:
            return f"components are nested deeper than {MOST_DEPTH} levels; what is deeper is not drawn"
        return ""

    def _add(self, node: Drawn, name: str, value: Any, about: Property, inside: tuple[tuple[str, str], ...]) -> None:
        match about.kind:
            case Kind.CHILD if isinstance(value, str):
                node.values[name] = self.drawn(value, node.at, inside)
            case Kind.CHILDREN:
                node.values[name] = self._children(value, node.at, inside)
            case Kind.TABS if is_array(value):
                node.values[name] = list(self._tabs(value, node.at, inside))
            case Kind.OPTIONS if is_array(value):
                node.values[name] = [self._option(each, node.at) for each in value if is_object(each)]
            case Kind.ACTION:
                node.action = value if is_object(value) else None
            case Kind.CHECKS:
                self._check(node, value)
            case Kind.DYNAMIC:
                self._bind(node, name, value)
            case _:
                node.values[name] = value

    def _bind(self, node: Drawn, name: str, value: Any) -> None:
        if is_object(value) and isinstance(path := value.get("path"), str):
            node.paths[name] = joined(node.at, path)
        if (worked_out := self._evaluation.value(value, node.at)) is not MISSING:
            node.values[name] = worked_out

    def _children(self, value: Any, at: str, inside: tuple[tuple[str, str], ...]) -> list[Drawn]:
        return list(self._each_child(value, at, inside))

    def _each_child(self, value: Any, at: str, inside: tuple[tuple[str, str], ...]) -> Iterator[Drawn]:
        for component_id, place in _places(value, at, self._evaluation.data):
            yield self.drawn(component_id, place, inside)
            # Behind the one that says that there are too many.
            if self._count > MOST_DRAWN:
                return

    def _tabs(self, tabs: list[Any], at: str, inside: tuple[tuple[str, str], ...]) -> Iterator[dict[str, Any]]:
        for tab in tabs:
            if is_object(tab) and self._count <= MOST_DRAWN:
                titled = self._option({**tab, "child": None}, at)
                if isinstance(child := tab.get("child"), str):
                    titled["child"] = self.drawn(child, at, inside)
                yield titled

    def _option(self, option: dict[str, Any], at: str) -> dict[str, Any]:
        worked_out = {name: self._evaluation.value(each, at) for name, each in option.items()}
        return {name: each for name, each in worked_out.items() if each is not MISSING}

    def _check(self, node: Drawn, rules: Any) -> None:
        for rule in rules if is_array(rules) else ():
            if not is_object(rule) or not self._evaluation.step():
                continue
            message = str(rule.get("message", "This value does not fit."))[:1_000]
            holds = self._evaluation.holds(rule.get("condition", rule), node.at)
            if not holds:
                (node.unchecked if holds is None else node.failed).append(message)


def _places(value: Any, at: str, data: Any) -> Iterator[tuple[str, str]]:
    """Iterate over the components of a list of children: their ids, and the paths of the items they are drawn for."""
    if is_array(value):
        yield from ((each, at) for each in value if isinstance(each, str))
    elif is_object(value) and isinstance(component_id := value.get("componentId"), str):
        path = joined(at, str(value.get("path", "")))
        items = get(data, path)
        for index in range(len(items) if is_array(items) else 0):
            yield component_id, joined(path, str(index))


_OTHER = Property("", Kind.DYNAMIC)
_COMMON = {"weight": Property("", Kind.STATIC), "accessibility": Property("", Kind.OPTIONS)}
_GUESSED = {
    "child": Property("", Kind.CHILD),
    "children": Property("", Kind.CHILDREN),
    "action": Property("", Kind.ACTION),
    "checks": Property("", Kind.CHECKS),
}
"""The properties of components that are unknown, by the names that they have in the basic catalog."""
