"""The rules by which a store keeps the runs of a served agent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from agui_client._core.ground.field_docs import Record
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from agui_client._core.agent.run_records import OnCrash, WhenLeft


@dataclass(frozen=True, slots=True)
class Keeping(Record):
    """The rules of keeping for a served agent: `agent_app(agent, store=store, keeping=Keeping(when_left="stop"))`.

    Raises:
        UsageError: A member has a wrong value.
    """

    threads: Literal["kept", "transcripts"] = "kept"
    """"kept" has the agent continue with the conversation in the store, whatever the caller sends of it; "transcripts"
    has the agent take the conversation from the caller, as it does without a store."""
    when_left: WhenLeft = "continue"
    """The fate of a run when its last caller has left: "continue", or "stop", which a database does not know."""
    on_crash: OnCrash = "again"
    """The fate of a run in a database whose process ends: "again" runs the part again that was cut, "fail" ends the
    run with RUN_ERROR (`process_ended`)."""
    caller: Callable[[Any], object] | None = None
    """A function of what `authorize=` returned, which returns what a run keeps of its caller: text or other JSON,
    without credentials. A function that chooses the agent gets that as `request.caller`, in each process. None keeps
    the owner alone in a database."""

    def __post_init__(self) -> None:
        if self.threads not in ("kept", "transcripts"):
            raise UsageError(f'Keeping(threads=) is "kept" or "transcripts", not {self.threads!r}')
        if self.when_left not in ("continue", "stop"):
            raise UsageError(f'Keeping(when_left=) is "continue" or "stop", not {self.when_left!r}')
        if self.caller is not None and not callable(cast("object", self.caller)):
            raise UsageError("Keeping(caller=) takes a function of what authorize= returned")
