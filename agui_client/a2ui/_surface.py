"""A surface: components and data that an agent sent, what a person entered, and what a press says to the agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from agui_client._core.protocol.schema import is_array, is_object
from agui_client.a2ui._actions import Action
from agui_client.a2ui._catalog import COMPONENTS, INPUTS
from agui_client.a2ui._data import MISSING, DataError, copied, get, put
from agui_client.a2ui._drawing import Drawn, draw
from agui_client.a2ui._evaluation import Evaluation
from agui_client.a2ui._functions import text_of
from agui_client.a2ui._inputs import checked_value
from agui_client.a2ui._operations import Operation
from agui_client.a2ui._words import BASIC_CATALOG, BASIC_CATALOGS, MOST_COMPONENTS, MOST_NESTED, MOST_PROBLEMS
from agui_client.errors import UsageError


@dataclass(frozen=True, slots=True)
class Entered:
    """A value that a person entered."""

    value: Any
    """The value."""
    agents: Any
    """The agent's value there; `MISSING` if there was none."""


Status = Literal["building", "retrying", "failed", "ready"]
"""The progress of an agent with a surface: it is being written, written anew after a mistake, given up, or complete."""


class Surface:
    """A user interface that an agent sent as data.

    Args:
        look: A function that takes in what the agent has sent since.
        when_entered: A function that is called when a person entered a value.
    """

    def __init__(self, surface_id: str, look: Callable[[], None], when_entered: Callable[[Surface], None]) -> None:
        self.id = surface_id
        """The id of the surface."""
        self.catalog_id: str = BASIC_CATALOG
        """The id of the catalog that the components are of."""
        self.theme: Mapping[str, Any] = {}
        """The colours and names that the agent wishes; it may claim any name."""
        self._status: Status = "ready"
        self.message_ids: list[str] = []
        """The ids of the messages that created and changed it, in order."""
        self.carried_by: list[str] = []
        """The ids of those messages, and of calls in them."""
        self.revision: int = 0
        """The place of the last operation on it among those on all surfaces, from 1: grows with each change."""
        self._look, self._when_entered = look, when_entered
        self._data: Any = {}
        # What a person entered, by path, with what the agent had there.
        self._entered: dict[str, Entered] = {}
        self._components: dict[str, dict[str, Any]] = {}
        self._problems: dict[str, None] = {}
        self._drawing: tuple[Drawn, Evaluation] | None = None

    def __repr__(self) -> str:
        return f"<Surface {self.id!r}: {self._status}, {len(self._components)} components>"

    # --- what there is

    @property
    def status(self) -> Status:
        """The progress of the agent with it."""
        self._look()
        return self._status

    @status.setter
    def status(self, status: Status) -> None:
        """Note how far the agent is."""
        self._status = status

    @property
    def data(self) -> Any:
        """The data, with what a person entered; to be read only."""
        self._look()
        return self._data

    @property
    def entered(self) -> Mapping[str, Any]:
        """The values that a person entered and the agent has not replaced, by path."""
        self._look()
        return {path: entered.value for path, entered in self._entered.items()}

    @property
    def tree(self) -> Drawn:
        """The surface as it is drawn, from its outermost component."""
        return self._drawn()[0]

    @property
    def problems(self) -> list[str]:
        """The parts that could not be drawn as the agent sent them, as sentences."""
        evaluation = self._drawn()[1]
        return [*self._problems, *evaluation.problems]

    @property
    def unknown(self) -> list[str]:
        """The names of components and functions that are not of the basic catalog, or not carried out."""
        return [*self._drawn()[1].unknown]

    @property
    def failed_checks(self) -> list[str]:
        """The messages of all checks that do not hold."""
        return [message for each in self.tree.walk() for message in each.failed]

    def __getitem__(self, component_id: str) -> Drawn:
        """Return the component with an id.

        Raises:
            KeyError: The surface does not draw it.
            UsageError: It is drawn for several items of a list; see `find`.
        """
        if not any(each.id == component_id for each in self.tree.walk()):
            raise KeyError(component_id)
        return self.find(component_id)

    def find(self, component_id: str, *, at: str | None = None) -> Drawn:
        """Return the component with an id, at one place.

        Args:
            at: The path of the item that it is drawn for, such as "/ferries/0"; needed if there are several.

        Raises:
            UsageError: There is none, or there are several.
        """
        # A component that stands twice at one place has the same values there.
        found = {each.at: each for each in self.tree.walk() if each.id == component_id and each.component}
        if not found:
            raise UsageError(f"the surface {self.id!r} draws no component {component_id!r}")
        first = next(iter(found))
        if at in found or (at is None and len(found) == 1):
            return found[first if at is None else at]
        places = ", ".join(map(repr, list(found)[:5]))
        raise UsageError(f"{component_id!r} is drawn at {places}: say which with at=, such as at={first!r}")

    # --- what a person does

    def set(self, component_id: str, value: Any, *, at: str | None = None) -> None:
        """Enter a value, as a person would.

        Args:
            component_id: The id of a text field, check box, choice, slider or date.
            value: The value; of a choice, one of its values or several.
            at: The path of the item, as for `find`.

        Raises:
            UsageError: There is no such input, it does not take the value, or it is not bound to data.
        """
        node = self.find(component_id, at=at)
        if node.component not in INPUTS:
            raise UsageError(f"{component_id!r} is a {node.component}, into which nothing is entered")
        if (path := node.paths.get("value")) is None:
            raise UsageError(f"the value of {component_id!r} is not bound to data, so the agent would never see it")
        self.enter({path: checked_value(node, value)})
        self._when_entered(self)

    def press(self, component_id: str, *, at: str | None = None) -> Action:
        """Press a button, and return the action to send: `await agent.run_agent(**action.run_options())`.

        Args:
            component_id: The id of the button.
            at: The path of the item, as for `find`.

        Raises:
            UsageError: There is no such button, its checks do not hold, or it does something on the page alone.
        """
        node = self.find(component_id, at=at)
        if node.action is None:
            raise UsageError(f"{component_id!r} is a {node.component} without an action, and is not pressed")
        event: Any = node.action.get("event")
        if not is_object(event) or not isinstance(name := event.get("name"), str):
            raise UsageError(
                f"{component_id!r} does something on the page alone ({_call_name(node)}): the agent is not told"
            )
        if node.failed:
            raise UsageError(f"{component_id!r} cannot be pressed yet: {'; '.join(node.failed[:5])}")
        context: Any = event.get("context")
        evaluation = Evaluation(self._data)
        asked: dict[str, Any] = context if is_object(context) else {}
        worked_out = {key: _resolved(evaluation, each, node.at) for key, each in asked.items()}
        given = {key: copied(each) for key, each in worked_out.items() if each is not MISSING}
        return Action(name, self.id, component_id, given)

    # --- what the agent and the conversation change

    def apply(self, operation: Operation) -> None:
        """Carry out an operation of the agent.

        Args:
            operation: The operation, which is about this surface.
        """
        self._drawing = None
        match operation.kind:
            case "createSurface":
                self._create(operation.body)
            case "updateComponents":
                self._update_components(operation.body.get("components"))
            case "updateDataModel":
                self._update_data(operation.body)
            case _:
                self.note(operation.problem)

    def enter(self, values: Mapping[str, Any]) -> None:
        """Write values that a person entered into the data.

        Args:
            values: The values by path.
        """
        self._drawing = None
        for path, value in values.items():
            agents = self._entered[path].agents if path in self._entered else get(self._data, path)
            if self._put(path, value):
                self._entered[path] = Entered(value, agents)

    def enter_again(self, former: Mapping[str, Entered]) -> None:
        """Write values that were entered before the agent wrote more, unless it wrote another value there.

        Args:
            former: The values by path, with what the agent had there.
        """
        for path, entered in former.items():
            agents = get(self._data, path)
            # A form that is still being written comes with empty fields, which replace nothing.
            if path not in self._entered and (agents == entered.agents or agents in (MISSING, None, "", [], False)):
                self.enter({path: entered.value})

    def entered_now(self) -> dict[str, Entered]:
        """Return what a person entered, with what the agent had there, for `enter_again`."""
        return dict(self._entered)

    def entered_to_keep(self) -> dict[str, Any]:
        """Return what a person entered, by path, without what is hidden while it is typed."""
        hidden = {
            path
            for each in self.tree.walk()
            if each.component == "TextField" and each.values.get("variant") == "obscured"
            for path in each.paths.values()
        }
        return {path: each.value for path, each in self._entered.items() if path not in hidden}

    def reset(self) -> None:
        """Forget everything but the id."""
        vars(self).update(vars(Surface(self.id, self._look, self._when_entered)))

    def note(self, problem: str) -> None:
        """Note a problem."""
        if len(self._problems) < MOST_PROBLEMS:
            self._problems[problem] = None

    def _create(self, body: Mapping[str, Any]) -> None:
        came_in = self.message_ids, self.carried_by
        self.reset()
        self.message_ids, self.carried_by = came_in
        self.catalog_id = str(body.get("catalogId") or BASIC_CATALOG)
        if self.catalog_id not in BASIC_CATALOGS:
            self.note(
                f"the catalog {self.catalog_id[:200]!r} is unknown: what is not of the basic catalog is named only"
            )
        theme = body.get("theme")
        self.theme = dict(theme) if is_object(theme) else {}

    def _update_components(self, given: Any) -> None:
        for each in given if is_array(given) else ():
            problem = _component_problem(each)
            if not problem and each["id"] not in self._components and len(self._components) >= MOST_COMPONENTS:
                problem = f"the surface has more than {MOST_COMPONENTS:,} components; the others are left out"
            if problem:
                self.note(problem)
            else:
                self._components[each["id"]] = _with_right_names(each, self._components.get(each["id"]))

    def _update_data(self, body: Mapping[str, Any]) -> None:
        path = str(body.get("path") or "/")
        self._put(path, body.get("value", MISSING))
        inside = path.rstrip("/") + "/"
        for entered in [each for each in self._entered if f"{each}/".startswith(inside)]:
            del self._entered[entered]

    def _put(self, path: str, value: Any) -> bool:
        try:
            self._data = put(self._data, path, value if value is MISSING else copied(value))
        except DataError as error:
            self.note(str(error))
            return False
        return True

    def _drawn(self) -> tuple[Drawn, Evaluation]:
        self._look()
        if self._drawing is None:
            evaluation = Evaluation(self._data)
            self._drawing = draw(self._components, evaluation), evaluation
        return self._drawing


def _component_problem(given: Any) -> str:
    if not is_object(given) or not isinstance(given.get("id"), str):
        return "a component has no id"
    name = given.get("component")
    if is_object(name):
        return f"the component {given['id'][:100]!r} is written as in A2UI v0.8, which is not drawn here"
    if name is not None and not isinstance(name, str):
        return f"the component {given['id'][:100]!r} has no name"
    return ""


def _with_right_names(given: dict[str, Any], existing: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a component with the names of the specification, in place of wrong ones that models were taught."""
    name = given.get("component") or (existing or {}).get("component", "")
    component = {**given, "component": name}
    for right, about in COMPONENTS.get(name, {}).items():
        for wrong in about.other_names:
            if right not in component and wrong in component:
                component[right] = component.pop(wrong)
    return component


def _resolved(evaluation: Evaluation, value: Any, at: str, depth: int = 0) -> Any:
    """Work out a member of an action's context, inside objects, too."""
    if is_object(value) and not ("path" in value or "call" in value) and depth < MOST_NESTED:
        inner = {name: _resolved(evaluation, each, at, depth + 1) for name, each in value.items()}
        return {name: each for name, each in inner.items() if each is not MISSING}
    return evaluation.value(value, at)


def _call_name(node: Drawn) -> str:
    call: Any = (node.action or {}).get("functionCall")
    return text_of(call.get("call", "nothing"))[:50] if is_object(call) else "nothing"
