"""The interrupts that a caller of a served agent gets, and its answers to them (TOOL-8, INT-1, SEC-3).

Calls of functions here that want approval and questions of tools here become interrupts, beside the agent's own. Their
ids have all that is needed to continue, so that a server needs to keep nothing.

To change

- the interrupts that a caller gets, and its answers: this module
"""

from __future__ import annotations

import hashlib
import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ag_ui.core import Interrupt
from pydantic_core import from_json, to_json

from agui_client._core.conversation.pending import open_questions
from agui_client._core.ground.plain_text import printable
from agui_client._core.protocol.custom_interrupts import is_custom
from agui_client._core.protocol.message_text import tool_calls_in
from agui_client._core.protocol.open_items import quoted
from agui_client._core.protocol.schema import is_array, is_object
from agui_client._core.tools.approval import Approve, Deny
from agui_client._core.tools.decisions import decision_in, decision_schemas
from agui_client._core.tools.interrupts import without_secrets
from agui_client._core.tools.json_schema import as_object
from agui_client._core.tools.questions import ToolQuestion
from agui_client.errors import ToolError, UsageError

if TYPE_CHECKING:
    from ag_ui.core import ResumeEntry, ToolCall

    from agui_client._core.conversation.snapshot import ConversationSnapshot
    from agui_client._core.run.options import RunOptions
    from agui_client._core.tools.toolset import OfferedTool
    from agui_client._core.verbs.async_run import AgentRun
    from agui_client._core.verbs.signer import Signer

APPROVAL = "approval:"
"""The prefix of the ids of interrupts that ask for the approval of a tool call."""
QUESTION = "question:"
"""The prefix of the ids of interrupts that are questions of tools; what is needed to make the call again follows."""
_PASSED_ON = "passed-on:"
"""The prefix for an agent's own interrupt whose id begins with one of these prefixes, as those of a served agent do."""
_ASKED_IN = re.compile(r"~([0-9a-f]{12})?\Z")
"""The mark of the run that asked, behind the id of an agent's own interrupt: agents use ids again. It names no run
behind an id that would be taken for a marked one, such as that of another served agent."""
_NUMBER, _MOST_DIGITS = "-", 10
"""The mark before the number of a call among those of its id, and the length that no such number has."""


def interrupts_of(run: AgentRun, asked: Iterable[Interrupt], *, is_finished: bool) -> list[Interrupt]:
    """Return the interrupts for the caller of a run; their ids are signed if the run has a signer.

    Args:
        asked: The interrupts of the agent.
        is_finished: Whether the last run of the agent has asked them; otherwise they have waited before.

    Raises:
        UsageError: With a signer, one of them may have been made up by the caller.
    """
    conversation = run.call.conversation
    if run.call.has_given_input:
        theirs = [*asked]
    else:
        # Where nothing is signed or stored, nobody could tell which run has asked.
        is_known = run.signer is not None or conversation.past is not None
        asking = run.call.round.input.run_id if is_finished else conversation.asking_run_id
        theirs = [_passed_on(each, asking if is_known else None) for each in asked]
    return _signed([*theirs, *_questions(run), *_approvals(run)], run.signer)


def stored_interrupts(
    document: ConversationSnapshot, tools: Mapping[str, OfferedTool], signer: Signer | None
) -> list[Interrupt]:
    """Return the interrupts that wait in a stored thread, as the caller of the run that left them got them.

    Args:
        document: The conversation.
        tools: The functions of the application that are known outside runs, by name.
        signer: The signer of their ids; None if they are not signed.
    """
    calls = {call.id: call for _, call in tool_calls_in(document.messages)}
    records = [(each, calls[each.tool_call_id]) for each in document.tool_calls if each.tool_call_id in calls]
    questions = [
        _question(each.question, _packed(each.question, call.function.name, is_saved=True))
        for each, call in records
        if each.question is not None
    ]
    approvals = [
        _approval(call, tools.get(call.function.name), each.ordinal, is_saved=True)
        for each, call in records
        if each.is_waiting and each.is_of_application
    ]
    asked = [_passed_on(each, document.asking_run_id) for each in document.open_interrupts if not is_custom(each)]
    return _signed([*asked, *questions, *approvals], signer)


def _signed(interrupts: list[Interrupt], signer: Signer | None) -> list[Interrupt]:
    if signer is None:
        return interrupts
    return [each.model_copy(update={"id": signer.sign(each.id)}) for each in interrupts]


def _passed_on(interrupt: Interrupt, asking_run_id: str | None) -> Interrupt:
    """Return an interrupt of the agent under an id that no other question has, and that is none of this module's.

    Args:
        asking_run_id: The id of the run that asked; None if nobody can tell it later.
    """
    is_like_ours = interrupt.id.startswith((APPROVAL, QUESTION, _PASSED_ON))
    mark = "~" if _ASKED_IN.search(interrupt.id) else ""
    if asking_run_id is not None:
        mark = f"~{_mark_of(asking_run_id)}"
    if not (is_like_ours or mark):
        return interrupt
    return interrupt.model_copy(update={"id": f"{_PASSED_ON if is_like_ours else ''}{interrupt.id}{mark}"})


def _mark_of(run_id: str) -> str:
    return hashlib.sha256(run_id.encode(errors="surrogatepass")).hexdigest()[:12]


def is_of_agent(interrupt_id: str) -> bool:
    """Return whether an interrupt is the agent's own, by the id that the caller got."""
    return not interrupt_id.startswith((APPROVAL, QUESTION))


def own_id(interrupt_id: str) -> str:
    """Return the id that the agent gave to an interrupt of its own.

    Args:
        interrupt_id: The id that the caller got.
    """
    return _ASKED_IN.sub("", interrupt_id.removeprefix(_PASSED_ON))


def is_of_another_run(interrupt_id: str, asking_run_id: str | None) -> bool:
    """Return whether a caller got an interrupt of the agent's own from another run than the one that asks now.

    Args:
        interrupt_id: The id that the caller got; an id as the agent gave it is of any run.
        asking_run_id: The id of the run that asks; None if it is not known.
    """
    mark = _ASKED_IN.search(interrupt_id)
    asked_in = None if mark is None else mark[1]
    return asked_in is not None and asking_run_id is not None and asked_in != _mark_of(asking_run_id)


def _questions(run: AgentRun) -> list[Interrupt]:
    """Return an interrupt for each question of a tool here, also if a process that is gone has called the tool."""
    conversation, is_saved = run.call.conversation, run.call.is_saved
    asked = [(each, conversation.tool_call(each.interrupt.tool_call_id or "")) for each in open_questions(conversation)]
    return [
        _question(each, _packed(each, call.function.name, is_saved=is_saved))
        for each, call in asked
        if call is not None
    ]


def _question(question: ToolQuestion, packed: str) -> Interrupt:
    return question.interrupt.model_copy(update={"id": QUESTION + packed})


def _packed(question: ToolQuestion, tool: str, *, is_saved: bool) -> str:
    value = {**question.model_dump(mode="json", exclude_defaults=True, by_alias=True), "tool": tool}
    if is_saved:
        # The answer is for the conversation that is saved here; its caller has no need to see what the tool has left.
        value.pop("left", None)
    elif question.left is not None:
        value["left"] = _without_encrypted(value["left"])
    return urlsafe_b64encode(to_json(value, inf_nan_mode="constants")).decode()


def _without_encrypted(value: Any) -> Any:
    """Return a JSON value without the encrypted values of messages: ids are logged and recorded."""
    if is_object(value):
        return {name: _without_encrypted(each) for name, each in value.items() if name != "encryptedValue"}
    return [_without_encrypted(each) for each in value] if is_array(value) else value


def unpacked(interrupt_id: str) -> tuple[ToolQuestion, str]:
    """Return the question of a tool that is in the id of an interrupt, and the name of the tool.

    Args:
        interrupt_id: The id, which begins with `QUESTION`.

    Raises:
        UsageError: There is none in it.
    """
    try:
        value: Any = from_json(urlsafe_b64decode(interrupt_id.removeprefix(QUESTION)))
        # Where threads are stored, ids without the name may still wait to be answered.
        tool = str(value.pop("tool", "")) if is_object(value) else ""
        return ToolQuestion.model_validate(value), tool
    except ValueError:
        raise UsageError(f"resume answers {quoted(interrupt_id)}, which is not a question of a tool") from None


class ResumeAnswers:
    """A caller's answers to the interrupts that it got, as answers to what the agent itself waits for.

    Args:
        resume: The caller's entries.
        calls: The tool calls that the caller may have decided about, by id.
        ordinals: The numbers of stored calls among those of their ids; empty where no thread is stored.

    Raises:
        UsageError: The id of an entry begins like a tool's question, and cannot be read; or the entry decides about
            another call of the id than the one that waits.
    """

    def __init__(
        self, resume: Iterable[ResumeEntry], calls: Mapping[str, ToolCall], ordinals: Mapping[str, int] | None = None
    ) -> None:
        self.entries: list[ResumeEntry] = []
        """The answers to interrupts of the agent."""
        self.questions: list[ToolQuestion] = []
        """The questions of tools that are answered."""
        self.tools: dict[str, str] = {}
        """The tools that asked them, by the ids of their calls."""
        decisions: dict[str, Approve | Deny] = {}
        answers: list[ResumeEntry] = []
        for entry in resume:
            if entry.interrupt_id.startswith(APPROVAL):
                tool_call_id, ordinal = approved_call(entry.interrupt_id)
                if ordinal != (ordinals or {}).get(tool_call_id, ordinal):
                    # A request that is sent again must not decide about the next call of the same id.
                    what = f"resume answers {quoted(entry.interrupt_id)}"
                    raise UsageError(f"{what}, which is about another call of that id than the one that waits")
                decisions[tool_call_id] = _decision(entry, calls.get(tool_call_id))
            elif entry.interrupt_id.startswith(QUESTION):
                question, tool = unpacked(entry.interrupt_id)
                self.questions.append(question)
                self.tools[question.interrupt.tool_call_id or ""] = tool
                answers.append(entry.model_copy(update={"interrupt_id": question.interrupt.id}))
            else:
                self.entries.append(entry.model_copy(update={"interrupt_id": own_id(entry.interrupt_id)}))
        self.options: RunOptions = {}
        """The keywords of the run that continues with the answers."""
        if self.entries or answers:
            self.options["resume"] = [*self.entries, *answers]
        if decisions:
            self.options["tool_results"] = decisions
        answered = [*decisions, *(question.interrupt.tool_call_id or "" for question in self.questions)]
        self.calls: list[ToolCall] = [calls[each] for each in answered if each in calls]
        """The tool calls that are decided about, or whose questions are answered."""


def _decision(entry: ResumeEntry, call: ToolCall | None) -> Approve | Deny:
    """Return a caller's decision about a call; only an approval of the very call that was shown approves it (SEC-3)."""
    decision = decision_in(entry)
    proof = entry.interrupt_id.rpartition(":")[2].partition(_NUMBER)[0]
    if isinstance(decision, Approve) and (call is None or proof != _digest(call)):
        return Deny("The call is not the one that was approved.")
    return decision


def approved_call(interrupt_id: str) -> tuple[str, int]:
    """Return the id of the call whose approval an interrupt asks for, and the call's number among those of its id.

    Args:
        interrupt_id: The id of the interrupt, which begins with `APPROVAL`.
    """
    tool_call_id, _, proof = interrupt_id.removeprefix(APPROVAL).rpartition(":")
    number = proof.partition(_NUMBER)[2]  # behind the digest of all but the first
    return tool_call_id, int(number) if number.isdecimal() and len(number) < _MOST_DIGITS else 1


def _digest(call: ToolCall) -> str:
    """Return a short text that changes with the name and the arguments of a call."""
    return hashlib.sha256(f"{call.function.name}\n{call.function.arguments}".encode()).hexdigest()[:16]


def _approvals(run: AgentRun) -> list[Interrupt]:
    """Return an interrupt for each pending call of a function here, which waits for approval."""
    result = run.partial
    asked = {interrupt.tool_call_id for interrupt in result.interrupts}
    left = [*result.pending_tool_calls, *run.call.undecided]
    calls = [call for key, call in {each.id: each for each in left}.items() if key not in asked]
    pending = [(call, run.call.tools.offered.get(call.function.name)) for call in calls]
    places, is_saved = run.call.conversation, run.call.is_saved
    return [
        _approval(call, tool, 1 if (place := places.place_of_call(call.id)) is None else place[1], is_saved=is_saved)
        for call, tool in pending
        if tool is not None and tool.toolset is not None
    ]


def _question_about(call: ToolCall, tool: OfferedTool | None) -> str:
    """Return the tool's own question about a call, or the usual one, with the values that the function would get."""
    question, arguments, schema = "", call.function.arguments, None
    # A call that cannot be bound fails once it is approved, with a message for the agent that says why.
    with suppress(ToolError):
        values: Mapping[str, Any] = as_object(arguments)
        if tool is not None:
            bound, schema = tool.bind(call.id, arguments), tool.definition.parameters
            question, values = tool.question(bound), bound.arguments
        arguments = json.dumps(without_secrets(dict(values), schema), ensure_ascii=False)
    shown = printable(f"{call.function.name} with {arguments}")
    return f"{question}\n{shown}" if question else f"Allow the call of {shown}?"


def _approval(call: ToolCall, tool: OfferedTool | None, ordinal: int, *, is_saved: bool) -> Interrupt:
    parameters = None if tool is None else tool.definition.parameters
    properties = decision_schemas(parameters or {"type": "object"})
    if is_saved:  # elsewhere nothing would remember it
        later = "Whether later calls of the tool in this thread may run, too."
        properties["always"] = {"type": "boolean", "description": later}
    return Interrupt(
        id=f"{APPROVAL}{call.id}:{_digest(call)}{f'{_NUMBER}{ordinal}' if ordinal > 1 else ''}",
        reason="tool_call",
        message=_question_about(call, tool),
        tool_call_id=call.id,
        response_schema={"type": "object", "properties": properties, "required": ["approved"]},
    )
