"""The state as a model of the application: read, checked, and written back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

from pydantic import ValidationError
from pydantic_core import to_json

from agui_client._core.agent.state_watching import member_of
from agui_client._core.conversation.state_merging import ABSENT
from agui_client._core.ground.json_pointers import pointer
from agui_client._core.ground.type_adapters import type_adapter
from agui_client._core.run.observers import RunObserver
from agui_client._core.run.scope import StateT
from agui_client.errors import ParseError, UsageError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from agui_client._core.run.observers import RunEnd
    from agui_client._core.run.scope import RunScope

_MOST_SHOWN = 3
_LONGEST_PROBLEM = 200


class StateModel(Generic[StateT]):
    """The type of an agent's state.

    Args:
        model: A pydantic model, a dataclass, a TypedDict, or any other type; or a `TypeAdapter` of it.

    Raises:
        UsageError: pydantic cannot read the type.
    """

    def __init__(self, model: Any) -> None:
        self._name = str(getattr(model, "__name__", model))
        self._adapter: TypeAdapter[StateT] = type_adapter(model, "state_model=")

    def read(self, state: Any) -> StateT:
        """Return a state as an object of the type.

        Raises:
            ParseError: It does not fit.
        """
        try:
            return self._parsed(state)
        except ValidationError as misfit:
            what = f"the state does not fit {self._name}: {_explained(misfit, state)}"
            raise ParseError(f"{what}; `state` has it as it is") from None

    def _parsed(self, state: Any) -> StateT:
        return self._adapter.validate_json(to_json(state, inf_nan_mode="constants"))

    def misfits(self, state: Any) -> list[tuple[str, str]]:
        """Return the JSON pointers of the places that do not fit, each with a sentence."""
        try:
            self._parsed(state)
        except ValidationError as misfit:
            what = f"the state does not fit {self._name} at"
            return [(path, f"{what} {path or 'its root'}: {problem}") for path, problem in _problems(misfit, state)]
        return []

    def written(self, value: StateT) -> Any:
        """Return an object of the type as JSON.

        Raises:
            UsageError: It was changed to something that does not fit the type.
        """
        try:
            state = self._adapter.dump_python(value, mode="json", by_alias=True, round_trip=True, warnings=False)
        except ValueError as error:
            raise UsageError(f"the edited state cannot be written as JSON: {error}; nothing was changed") from None
        try:
            self._parsed(state)
        except ValidationError as misfit:
            what = f"the edited state does not fit {self._name}: {_explained(misfit, state)}"
            raise UsageError(f"{what}; nothing was changed") from None
        return state


class ModelCheck(RunObserver):
    """Warns at the end of a run of a state that does not fit the model."""

    def __init__(self, model: StateModel[Any]) -> None:
        self._model = model

    def on_end(self, run: RunScope, end: RunEnd) -> None:
        """Check the state."""
        agent: Any = run.owner
        for path, sentence in self._model.misfits(agent.state):
            run.warnings.add("STATE-2", sentence, path=path)


def _problems(misfit: ValidationError, state: Any) -> list[tuple[str, str]]:
    """Return the JSON pointers and descriptions of what does not fit, without the values."""
    problems: dict[str, str] = {}
    for each in misfit.errors(include_url=False, include_context=False, include_input=False):
        path, value = "", state
        for place, member in enumerate(each["loc"], 1):
            value, container = member_of(value, member), value
            # Some of pydantic's members are none of the state's, but the branch of a union that was tried.
            if value is ABSENT and not (each["type"] == "missing" and place == len(each["loc"])):
                value = container
            else:
                path = pointer(path, member)
        problems.setdefault(path, each["msg"][:_LONGEST_PROBLEM])
    return list(problems.items())


def _explained(misfit: ValidationError, state: Any) -> str:
    problems = [f"{path or 'the whole'}: {problem}" for path, problem in _problems(misfit, state)]
    shown = "; ".join(problems[:_MOST_SHOWN])
    return shown if len(problems) <= _MOST_SHOWN else f"{shown}; and {len(problems) - _MOST_SHOWN} more"
