"""RxPY: a turn as a cold observable; messages, state and places of the state as hot ones, across turns.

`Observables` only joins the verbs and the thread to reactivex, which is loaded at the first use. An observed turn is
carried out by `_core/verbs/observable`; what has changed in a state is found by `state_watching`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from agui_client._core.agent.verbs import Verbs
from agui_client._core.protocol.prompts import Prompt
from agui_client._core.protocol.reduce import Change
from agui_client._core.run.options import RunOptions, checked_options, lists_keywords
from agui_client._core.run.scope import StateT

if TYPE_CHECKING:
    from ag_ui.core import Event, Message
    from reactivex import Observable

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


class Observables(Verbs[StateT]):
    """Turns, messages and state of an agent as observables; see `AbstractAgent`."""

    @lists_keywords(RunOptions)
    def observe(self, prompt: Prompt = None, **options: Unpack[RunOptions]) -> Observable[Event]:
        """Return a run as a cold RxPY observable: subscribing starts it, disposing aborts it.

        Inside an asyncio loop the events come in that loop; without one, in a thread of the subscription's own.

        Args:
            prompt: Text; a list of texts, paths and content parts (see `attach`); a message; a `RunAgentInput`, which
                is sent as it is and becomes the conversation; or None to continue with the conversation as it is.
            options: See `RunOptions`.

        Returns:
            An observable of events; an exception that `run_agent` would raise goes to `on_error`.
        """
        from agui_client._core.verbs.observable import observe_run

        # Here, and not at the subscription: a misspelled keyword is the fault of this line.
        checked_options(options, RunOptions, f"{type(self).__name__}.observe")
        return observe_run(lambda: self.stream(prompt, **options), self._conversation)

    def observe_messages(self) -> Observable[list[Message]]:
        """Return the messages as a hot RxPY observable: the present ones, then every change, across runs."""
        from agui_client._core.verbs.observable import observe_changes

        return observe_changes(self._conversation.listeners.add, Change.MESSAGES, lambda: self.messages)

    def observe_state(self, path: str = "") -> Observable[Any]:
        """Return the state, or places in it, as a hot RxPY observable: the present values, then every change.

        Args:
            path: The JSON pointer of a place, such as `/legs/0/price`; `*` stands for every member, as in
                `/legs/*/price`. The value of a place that was removed is `agui_client.state.ABSENT`.

        Raises:
            UsageError: The path is not a JSON pointer.
        """
        if path:
            from agui_client._core.agent.state_watching import observe_places

            return observe_places(self._conversation, path)
        from agui_client._core.verbs.observable import observe_changes

        return observe_changes(self._conversation.listeners.add, Change.STATE, lambda: self.state)

    def on_state(self, path: str) -> Callable[[FunctionT], FunctionT]:
        """Decorate a plain function to be called with every new value at places of the state, in runs and outside.

        Args:
            path: The JSON pointer of the places, such as `/legs/*/price`; `*` stands for every member.

        Returns:
            The decorator; the function takes the value, and the JSON pointer of its place after it if it wants. The
            value of a place that was removed is `agui_client.state.ABSENT`. An exception in the function is logged.

        Raises:
            UsageError: The path is not a JSON pointer, or the function is async.
        """
        from agui_client._core.agent.state_watching import Places, watch_with

        places = Places(path)

        def register(function: FunctionT) -> FunctionT:
            """Call the function from the next change on."""
            watch_with(self._conversation, places, function)
            return function

        return register
