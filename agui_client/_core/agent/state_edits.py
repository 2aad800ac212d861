"""Edits of the state: made against what was read, and merged with what the agent wrote meanwhile.

Between two runs an edit changes the state, which the next run sends. During a run the agent does not know of it, and
its snapshots and patches change its own state. `PendingEdits` shows the edits over that until a run is sent with them.
"""

from __future__ import annotations

from collections.abc import Iterable
from inspect import iscoroutinefunction
from threading import RLock
from typing import TYPE_CHECKING, Any, Generic, cast

from agui_client._core.conversation.changes import StateReplaced
from agui_client._core.conversation.state_json import state_as_json
from agui_client._core.conversation.state_merging import ABSENT, Conflict, ConflictPolicy, merge, with_edit
from agui_client._core.protocol.patch import copied, is_same_json
from agui_client._core.protocol.problems import LONGEST_PATH, shortened
from agui_client._core.protocol.reduce import Change
from agui_client._core.run.scope import StateT
from agui_client.errors import AGUIError, UsageError

if TYPE_CHECKING:
    from types import TracebackType

    from agui_client._core.agent.state_model import StateModel
    from agui_client._core.conversation.conversation import Conversation


class StateConflictError(AGUIError):
    """The agent changed a place of the state that was edited here, and `on_conflict="raise"` asks for an exception.

    Args:
        message: The text.
        conflicts: The places.
    """

    def __init__(self, message: str, *, conflicts: Iterable[Conflict]) -> None:
        super().__init__(message)
        self.conflicts: tuple[Conflict, ...] = tuple(conflicts)
        """The places, each with the values of both sides."""


def check_policy(policy: object) -> None:
    """Check a policy for conflicts; None is none.

    Raises:
        UsageError: It is none that exists.
    """
    if iscoroutinefunction(policy) or not (callable(policy) or policy in (None, "theirs", "mine", "raise")):
        how = "'theirs', 'mine', 'raise', or a plain function that takes a Conflict and returns a value"
        raise UsageError(f"on_conflict= takes {how}, not {policy!r}")


class StateEdit(Generic[StateT]):
    """An edit of the state, as a block: `with agent.edit_state() as trip: trip.budget = 900`.

    The block gets a copy of the state. At its end the changes to the copy are made in the state that the agent has by
    then; an exception in the block discards them.

    Args:
        model: The type of the state; None for JSON.
        policy: The value that stands where the agent changed the same place.
    """

    def __init__(self, conversation: Conversation, model: StateModel[StateT] | None, policy: ConflictPolicy) -> None:
        self.conflicts: tuple[Conflict, ...] = ()
        """The places that the agent had changed as well when the block ended."""
        self._conversation, self._model = conversation, model
        self._policy: ConflictPolicy = policy
        self._is_open = False

    def __enter__(self) -> StateT:
        if self._is_open:
            raise UsageError("this edit of the state is open already; for a block inside it, call edit_state() again")
        self._read = state = self._conversation.state
        if self._model is None:
            self._copy, self._before = cast("StateT", copied(state)), state
        else:
            self._copy = self._model.read(state)
            self._before = self._model.written(self._copy)
        self._is_open = True
        return self._copy

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_open = False
        if kind is None:
            after = state_as_json(self._copy if self._model is None else self._model.written(self._copy))
            ours = with_edit(self._read, self._before, after)
            if ours is not self._read:
                self._apply(ours)

    def _apply(self, ours: Any) -> None:
        """Merge the edit with the present state."""
        conversation = self._conversation
        # Looked at once: what the agent writes from here on comes on top of it.
        theirs, pending = conversation.agent_state, conversation.overlay
        shown = theirs if pending is None else pending.shown(theirs)
        merged, self.conflicts = merge(self._read, ours, shown, lambda conflict: _choice(self._policy, conflict))
        if self.conflicts and self._policy == "raise":
            raise StateConflictError(f"{_sentence(self.conflicts)}; nothing was changed", conflicts=self.conflicts)
        if conversation.is_running:
            conversation.overlay = PendingEdits(conversation, self._policy, theirs, merged)
        else:
            conversation.apply(StateReplaced(merged))
        _warn(conversation, self._policy, self.conflicts)
        conversation.listeners.notify(Change.STATE)


class PendingEdits:
    """Edits that were made during a run, shown over the state of the agent, which does not know of them yet.

    Args:
        policy: The value that stands where the agent changes the same place.
        theirs: The agent's state.
        ours: The same with the edits in it.
    """

    def __init__(self, conversation: Conversation, policy: ConflictPolicy, theirs: Any, ours: Any) -> None:
        self._conversation, self._theirs, self._ours = conversation, theirs, ours
        self._policy: ConflictPolicy = policy
        self._conflicts: list[Conflict] = []
        self._failure: Exception | None = None
        # An event is merged once, though hooks, listeners and other threads may look at the state.
        self._lock = RLock()
        self._stop = conversation.listeners.add(self._report)

    def shown(self, theirs: Any) -> Any:
        """Return the agent's state with the edits in it.

        Args:
            theirs: The state as the agent has it now.
        """
        with self._lock:
            if theirs is not self._theirs:
                base, self._theirs = self._theirs, theirs
                self._ours, conflicts = merge(base, self._ours, theirs, self._chosen)
                self._conflicts += conflicts
            return self._ours

    def sent(self, state: Any) -> None:
        """Continue from the state that a run is sent: edits that are in it are pending no longer."""
        with self._lock:
            self._theirs = state
            self._conversation.apply(StateReplaced(state, keeps_edits=True))
            if is_same_json(self._ours, state):
                self._conversation.overlay = None

    def _chosen(self, conflict: Conflict) -> Any:
        try:
            return _choice(self._policy, conflict)
        except Exception as failure:
            # Reported later: a read of the state would raise it here, and the run is to end with it.
            self._failure = failure
            return conflict.theirs

    def _report(self, change: Change) -> None:
        """Merge what an event changed, and report the conflicts."""
        if self._conversation.overlay is not self:
            self._stop()
            return
        if not change & Change.STATE:
            return
        self.shown(self._conversation.agent_state)
        conflicts, self._conflicts = self._conflicts, []
        failure, self._failure = self._failure, None
        _warn(self._conversation, self._policy, conflicts)
        if conflicts and self._policy == "raise":
            failure = StateConflictError(f"{_sentence(conflicts)}; the agent's value stands", conflicts=conflicts)
        # An event changes one thing; where messages change as well, the conversation was replaced between runs.
        if failure is not None and change == Change.STATE:
            raise failure


def _choice(policy: ConflictPolicy, conflict: Conflict) -> Any:
    """Return the value that stands at the place of a conflict."""
    if callable(policy):
        value = policy(conflict)
        return value if value is ABSENT else state_as_json(value)
    return conflict.ours if policy == "mine" else conflict.theirs


def _sentence(conflicts: Iterable[Conflict]) -> str:
    paths = (each.path for each in conflicts)
    places = ", ".join(shortened(path, LONGEST_PATH) if path else "the whole state" for path in paths)
    return f"the agent changed what was edited here, at {places}"


def _warn(conversation: Conversation, policy: ConflictPolicy, conflicts: Iterable[Conflict]) -> None:
    """Report the conflicts that a fixed policy settled."""
    if not callable(policy):
        stands = "the edit stands" if policy == "mine" else "the agent's value stands"
        for each in conflicts:
            conversation.warnings.add("STATE-4", f"{_sentence([each])}; {stands}", path=each.path)
