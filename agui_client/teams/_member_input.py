"""The input of a member: what it is shown of the team's conversation, and what it is asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import uuid4

from ag_ui.core import (
    Event,
    Message,
    MessagesSnapshotEvent,
    ResumeEntry,
    RunAgentInput,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    Tool,
    UserMessage,
)

from agui_client._core.protocol.schema import is_object
from agui_client._core.run.subagents import JOURNAL, without_journal
from agui_client.teams._event_forwarder import ItemOwners, Whole
from agui_client.teams._id_scope import IdMap, changed, split_interrupt_id
from agui_client.teams._members import Member, member_context, member_state, member_tools
from agui_client.teams._transcript import Shown, TeamTranscript

if TYPE_CHECKING:
    from agui_client._core.protocol.prompts import Part
    from agui_client.teams._call_journal import CallRecord

    Content: TypeAlias = str | list[Part]


class MemberInput:
    """The messages and the input of one invocation of a member.

    Args:
        outer: The input of the outer run.
        ids: The ids of the invocation.
        transcript: The conversation of the outer run, as members are shown it.
        prompt: What the member is asked; None for the conversation.
    """

    def __init__(
        self, member: Member, outer: RunAgentInput, ids: IdMap, transcript: TeamTranscript, prompt: Content | None
    ) -> None:
        self._member, self._outer, self._ids = member, outer, ids
        self.shown: Shown = transcript.shown(outer.messages, ids, member.sees or ("all" if prompt is None else None))
        """The messages that the member is shown."""
        self.own_ids: set[str] = {each.id for each in self.shown.own}
        """The ids of the member's own messages, as the team's conversation has them."""
        self._prompt_id = f"prompt-{ids.invocation.rpartition('-')[2]}"
        self.second_prompt_id: str = f"{self._prompt_id}-again"
        """The id of the message that says what is wrong with the member's reply, as the member knows it."""
        # A call that resumes, or is made again, has been asked already.
        self._prompt = None if ids.prefix + self._prompt_id in self.own_ids else prompt

    @property
    def missing_state(self) -> dict[str, Any]:
        """The state that the member begins with, as `baseline`, if the team's state has no place for it yet."""
        outer, member = self._outer.state, self._member
        is_placed = is_object(outer) and member.name in outer
        return {} if is_placed else {"baseline": member_state(outer, member)}

    def compose(self, tools: Iterable[Tool], resume: Sequence[ResumeEntry], record: CallRecord | None) -> RunAgentInput:
        """Return the input of the member's first run.

        Args:
            tools: Tools that it is offered besides those of the caller.
            resume: The answers to what it has asked.
            record: The record of an invocation that resumes.
        """
        member, outer, messages = self._member, self._outer, self.shown.messages
        if self._prompt is not None:
            messages = [*messages, UserMessage(id=self._prompt_id, content=self._prompt)]
        state = member_state(outer.state, member)
        if record is not None and record.state is not None:
            # As in `member_state`: a journal in it would be a caller's.
            state = without_journal(record.state)
        if record is not None and is_object(record.team):
            state = {**(state if is_object(state) else {}), JOURNAL: {**record.team, "goes_on": True}}
        composed = RunAgentInput(
            thread_id=f"{outer.thread_id}/{self._ids.prefix[:-1]}",
            run_id=str(uuid4()),
            messages=[],
            state=state,
            tools=member_tools(member, outer, tools) or None,
            context=member_context(member, outer.context or ()),
            forwarded_props=outer.forwarded_props,
            resume=list(resume) or None,
        )
        # Not validated: they are messages of this run, of which there may be thousands.
        return composed.model_copy(update={"messages": messages})

    def correction(self, before: RunAgentInput, messages: Sequence[Message], state: Any, misfit: str) -> RunAgentInput:
        """Return the input of the run in which the member is told that its reply does not fit.

        Args:
            before: The input of the run before.
            messages: The member's conversation.
            state: The member's state.
            misfit: What is wrong with the reply.
        """
        correction = UserMessage(id=self.second_prompt_id, content=misfit)
        update = {"run_id": str(uuid4()), "messages": [*messages, correction], "state": state, "resume": None}
        return before.model_copy(update=update)

    def prompt_events(self, owners: ItemOwners, misfit: str | None = None) -> list[Event | Whole]:
        """Return the events of what the member is asked; none if it was asked before.

        Args:
            owners: The owners of the items of the outer run.
            misfit: The prompt in its place, as the reply does not fit.
        """
        prompt, prompt_id = (self._prompt, self._prompt_id) if misfit is None else (misfit, self.second_prompt_id)
        message_id, invocation = self._ids.prefix + prompt_id, self._ids.invocation
        if prompt is None:
            return []
        if not isinstance(prompt, str):
            # Events write nothing but text.
            asked = changed(UserMessage(id=message_id, content=prompt), subagent_run_id=invocation)
            owners.restate_calls()
            return [lambda messages: MessagesSnapshotEvent(messages=[*messages, asked])]
        owner: Any = {"message_id": message_id, "subagent_run_id": invocation}
        return [
            TextMessageStartEvent(role="user", **owner),
            TextMessageContentEvent(delta=prompt, **owner),
            TextMessageEndEvent(**owner),
        ]


def answers_for(key: str, input: RunAgentInput) -> tuple[str | None, list[ResumeEntry]]:
    """Return the invocation of a member that an input has answers for, and the answers as the member has them.

    Args:
        key: The key of the member.
        input: The input of the outer run.
    """
    found: str | None = None
    entries: list[ResumeEntry] = []
    for entry in input.resume or ():
        parts = split_interrupt_id(entry.interrupt_id)
        if parts is not None and parts[1].startswith(f"{key}-{parts[0]}."):
            found = parts[1]
            entries.append(entry.model_copy(update={"interrupt_id": parts[2]}))
    return found, entries
