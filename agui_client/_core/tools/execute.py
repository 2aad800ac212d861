"""Execution of tool calls: checked, approved, called side by side, with results as messages for the agent (TOOL-10).

A call is executed at most once, and only by a toolset that offered its tool in the run that made the call (SEC-2).
Posting the next run is the engine's.

To change

- tools that are approved for the whole thread: `Conversation.approved_tools`, which `ToolCallTask` (here) reads and
  adds to
"""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias
from uuid import uuid4

import anyio
from ag_ui.core import Event, Interrupt, RunAgentInput, Tool, ToolCall, ToolMessage

from agui_client._core.ground.concurrency import LoopThread, side_by_side
from agui_client._core.protocol.open_items import quoted
from agui_client._core.protocol.patch import is_same_json
from agui_client._core.protocol.placeholders import marked
from agui_client._core.protocol.prompts import Part
from agui_client._core.tools.approval import (
    NOBODY_TO_ASK,
    ApprovalRequest,
    Approve,
    Approver,
    Decider,
    Deny,
    ToolDecision,
)
from agui_client._core.tools.context import (
    MOST_REPORTS,
    BoundCall,
    FailureName,
    ToolContext,
    ToolExecution,
    ToolStatus,
    log_failure,
)
from agui_client._core.tools.function import LEFT_IN_THREAD, call_function
from agui_client._core.tools.json_schema import as_object
from agui_client._core.tools.leaving import Leaving
from agui_client._core.tools.people import People, bounds_of, kind_of, person_asked
from agui_client._core.tools.questions import GivenAnswer, ToolQuestion, UnansweredError
from agui_client._core.tools.tool_limits import ToolLimits
from agui_client._core.tools.toolset import OfferedTool
from agui_client.errors import CannotWaitError, ToolError, UsageError

_logger = logging.getLogger("agui_client.tools")
_APPROVALS_AT_ONCE = 64
"""The number of approvers, or threads of one, that are called at the same time."""
_DECISIONS = "True, Approve(...), False or Deny(reason)"
_RULE_FAILED = "the approval rule of %s failed, so the call waits for approval"
_Given: TypeAlias = tuple[Approve | Deny | None, Decider | None]
"""The decision about a call, None if there is none, and the side that gave it, None if the call wanted no approval."""
_Ending: TypeAlias = tuple[ToolStatus, str | list[Part], str | None]
"""The final status, the content of the result, and the error of an execution."""


@dataclass
class ToolExecutor:
    """Executes the tool calls of one run.

    Args:
        run_input: The run that made them, or that they belong to now, with the present messages and state.
        offered: The tools that were offered in the run, by name.
        approve: The approver; None leaves calls that wait for approval to the caller.
        people: The bounds of the waits for the approver; None for the usual ones.
        approved_tools: The names of the tools whose calls a person has approved for the whole thread; it gets further
            ones.
        limits: The time limits, and the number of tools that run at once.
        ask: Returns the answer to a question of a tool; raises `UnansweredError` if there is none.
        decided: Returns the decision about a call that was given before; None without one.
        note: Called with each new status of an execution, and with its decision, before it is saved or observed.
        observe: Called with every change of an execution: for "running" and for the final status in the task that
            executes the tool, for progress in the event loop's thread.
        save: Awaited before a function is called, before a person is asked, and after a function returned while others
            are at work: none of that must be lost. The results of all are the caller's to save.
        note_event: Takes the activities that tools show, and the beginnings and ends of agents that they ask.
        executions: Gets every execution as it is now, by the id of the call.
        agent: The name of the agent that makes the calls, for approvers; empty if that needs no saying.
        repeated: Returns the question of a call that is made again, with all answers; None for any other call.
        leaving: Says whether a function may begin, and gets to know of its end.
    """

    run_input: RunAgentInput
    offered: Mapping[str, OfferedTool]
    approve: Approver | None
    people: People | None
    approved_tools: set[str]
    limits: ToolLimits
    ask: Callable[[Interrupt], Awaitable[GivenAnswer]]
    decided: Callable[[str], ToolDecision | None]
    note: Callable[[ToolExecution], None]
    observe: Callable[[ToolExecution], object]
    save: Callable[[], Awaitable[None]]
    note_event: Callable[[Event, BaseException | None], None] | None = None
    executions: dict[str, ToolExecution] = field(default_factory=dict[str, ToolExecution])
    agent: str = ""
    repeated: Callable[[str], ToolQuestion | None] = dict[str, ToolQuestion]().get
    leaving: Leaving = field(default_factory=Leaving)

    def __post_init__(self) -> None:
        self.approvals = anyio.CapacityLimiter(_APPROVALS_AT_ONCE)
        """The limit of approvals that are requested at the same time."""
        self.turns = anyio.CapacityLimiter(self.limits.at_once)
        """The limit of tools that run at the same time."""
        self.unfinished = 0
        """The number of calls that have not come to their end."""

    async def execute(self, calls: Sequence[ToolCall]) -> list[ToolMessage]:
        """Execute calls side by side.

        Returns:
            The results in the order of the calls; a call that waits for an approval or an answer has none.

        Raises:
            UsageError: A handler for people returned no answer; the other calls have come to their ends.
        """
        tasks = [ToolCallTask(call, self) for call in calls]
        self.unfinished = len(tasks)
        await side_by_side([task.run for task in tasks])
        for task in tasks:
            if task.mistake is not None:
                raise task.mistake
        return [task.message for task in tasks if task.message is not None]


class ToolCallTask:
    """The task that executes one call.

    Args:
        executor: The executor, for the run, limits, decisions and records.
    """

    def __init__(self, call: ToolCall, executor: ToolExecutor) -> None:
        self.message: ToolMessage | None = None
        """The result for the agent; None if the call is left to the caller."""
        self.mistake: UsageError | None = None
        """The mistake of a handler for people, which decides nothing: it fails the run when all calls are done."""
        self._call, self._executor = call, executor
        name, run = call.function.name, executor.run_input
        self._ids = {"tool_call_id": call.id, "thread_id": run.thread_id, "run_id": run.run_id}
        self._tool = executor.offered.get(name) or OfferedTool(Tool(name=name, description=""))
        self._began: float | None = None
        self._is_admitted = False
        repeated = executor.repeated(call.id)
        # A call that is made again with an answer was decided about before.
        decision = executor.decided(call.id) if repeated is None else None
        self._given = None if decision is None else decision.given
        if repeated is not None:
            self._given = Approve(repeated.arguments)
        # A copy: an answer is used up when the tool asks again, and the question stays saved until the call has ended.
        self._known_answers = [] if repeated is None else [*repeated.answers, *filter(None, [repeated.given])]
        self._left: Any = None if repeated is None else repeated.left
        self._answers: list[GivenAnswer] = []
        try:
            # The agent's arguments need not even be whole if an approval has brought all of them.
            self._bound: BoundCall | ToolError = self._bind(getattr(self._given, "arguments", None))
            # Observers and approvers get copies, so that none of them changes what the function is called with.
            arguments = copy.deepcopy(self._bound.arguments)
        except ToolError as error:
            self._bound, arguments = error, dict[str, Any]()
        description = self._tool.definition.description
        self._execution = ToolExecution(call.id, name, "waiting", arguments, description=description, decision=decision)
        self._change()

    async def run(self) -> None:
        """Execute the call, or make its message say why it was not."""
        try:
            ending = await self._execute()
        except ToolError as error:
            ending = "failed", error.message, FailureName.from_exception(error.__cause__ or error)
        except BaseException:
            if self._execution.status == "running":
                name, call = quoted(self._call.function.name), quoted(self._call.id)
                _logger.warning("tool %s was stopped in the middle (call %s); its effect is unknown", name, call)
            # No message: the agent gets no result of a call whose effect nobody knows.
            self._change(status="cancelled", error="cancelled", seconds=self._seconds)
            if self._is_admitted:
                self._executor.leaving.note_saved()
            raise
        # A call that waits, for an approval or an answer, has no ending, and no result either.
        if ending is not None:
            self._end(*ending)
        self._executor.unfinished -= 1
        if self._executor.unfinished or ending is None:
            await self._executor.save()
            if self._is_admitted:
                self._executor.leaving.note_saved()

    async def _execute(self) -> _Ending | None:
        call = self._bound
        if isinstance(call, ToolError):
            raise call
        given = self._given or await self._decide(call)
        if given is None:
            return None
        if isinstance(given, Deny):
            return "denied", given.reason, "denied"
        return await self._call_tool(call if given.arguments is None or self._given else self._bind(given.arguments))

    def _bind(self, edited: Mapping[str, Any] | None) -> BoundCall:
        """Check the agent's arguments, or those of an approval.

        An argument that the approval has as it was shown is the agent's own: it must not be validated twice.
        """
        if self._tool.toolset is None:
            known = ", ".join(self._executor.offered) or "none"
            raise ToolError(f"There is no tool {self._call.function.name!r} here; there are: {known}.")
        try:
            arguments = self._call.function.arguments if edited is None else self._own(edited)
            return self._tool.bind(self._call.id, arguments)
        except ToolError as error:
            # Never a violation of the protocol (TOOL-2): the agent gets to know which call it was.
            problem = ":" if edited is None else " was approved with other arguments, but"
            raise ToolError(f"tool call {self._call.id!r}{problem} {error}") from error.__cause__

    def _own(self, edited: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return edited arguments; those that are as they were shown in the words of the agent."""
        try:
            sent = as_object(text := self._call.function.arguments)
            shown = self._tool.bind(self._call.id, text).arguments
        except ToolError:
            return edited
        changed = {name: each for name, each in edited.items() if name not in shown or not _is_same(each, shown[name])}
        return {name: sent[name] for name in edited if name not in changed and name in sent} | changed

    async def _decide(self, call: BoundCall) -> Approve | Deny | None:
        definition, agent = self._tool.definition, self._executor.agent
        request = ApprovalRequest(tool=definition, arguments=call.arguments, agent=agent, **self._circumstances())
        # The rule is asked under the same limit, as it may ask a person, too.
        async with self._executor.approvals:
            given, by = await self._answer(request, call)
        if given is not None and by is not None:
            self._note_decision(given, by, call)
        return given

    async def _answer(self, request: ApprovalRequest, call: BoundCall) -> _Given:
        if call.name in self._executor.approved_tools:
            return Approve(), "person"
        rule = _approval_rule(self._tool, call)
        if rule is not False:
            await self._executor.save()
        if not await _needs_approval(rule, request):
            return Approve(), "rule" if callable(rule) else None
        asking = replace(request, message=self._tool.question(call))
        try:
            return await _decision(self._executor.approve, asking, self._executor.people)
        except CannotWaitError:
            raise
        except UsageError as mistake:
            self.mistake = mistake
            return None, None

    def _note_decision(self, given: Approve | Deny, by: Decider, call: BoundCall) -> None:
        """Note a decision as soon as it is given: whatever is saved from now on has it."""
        own = copy.deepcopy(given)
        if isinstance(own, Approve) and own.arguments is not None:
            with suppress(ToolError):  # they are refused in a moment
                # Completed by defaults, as the agent's are.
                own = replace(own, arguments=self._bind(own.arguments).arguments)
        self._execution = replace(self._execution, decision=ToolDecision.of(own, by, call.arguments))
        self._executor.note(self._execution)
        if isinstance(given, Approve) and given.always:
            self._executor.approved_tools.add(call.name)

    async def _call_tool(self, call: BoundCall) -> _Ending | None:
        own = self._tool.owner.timeout(call)
        limit = self._executor.limits.timeout if own is None else own
        turns = self._executor.turns
        if self._execution.decision is not None and not turns.available_tokens:
            # While the call waits for its turn, the decision must not be lost with the program.
            await self._executor.save()
        async with turns:
            await self._executor.leaving.admit()
            self._is_admitted = True
            # Noted and saved before the function is called: a program that is killed in it must not call it again.
            self._change(status="running", arguments=copy.deepcopy(call.arguments))
            await self._executor.save()
            self._began = time.monotonic()
            about = {**self._circumstances(), "name": call.name, "arguments": copy.deepcopy(call.arguments)}
            given: dict[str, Any] = {**about, "left": self._left, "loop": LoopThread()}
            given["on_event"] = self._executor.note_event
            ctx = ToolContext(on_report=self._report, on_ask=self._ask, on_leave=self._leave, **given)
            # The limit begins when the function does: a call that waits for its turn has not taken any of its time.
            with anyio.move_on_after(limit):
                try:
                    return "succeeded", await self._tool.call(call, ctx), None
                except UnansweredError as error:
                    # A function that is not made to be called again would repeat what it did before it asked.
                    if self._left is None and not self._tool.owner.is_repeatable(call):
                        raise
                    asked = error.question.model_copy(update={"tool_call_id": self._call.id})
                    ours = {"arguments": copy.deepcopy(call.arguments), "answers": self._answers, "left": self._left}
                    question = ToolQuestion.model_validate({"interrupt": asked, **ours})
                    self._change(status="waiting", question=question)
                    return None
        late = f"The tool took longer than {limit:g} seconds and was given up; its effect is unknown."
        return "timed out", late, "timeout"

    async def _ask(self, asked: Interrupt) -> Any:
        """Return the answer to a question of the tool: the one that was given before, or one that is given now.

        Raises:
            ToolError: Nobody answered, or the answer does not fit.
        """
        answer = next((each for each in self._known_answers if each.is_about(asked)), None)
        if answer is None:
            try:
                answer = await self._executor.ask(asked)
            except CannotWaitError:
                raise
            except UsageError as mistake:
                self.mistake = mistake
                raise UnansweredError(asked) from mistake
        else:
            self._known_answers.remove(answer)
        self._answers.append(answer)
        return answer.value()

    def _leave(self, left: Any) -> None:
        # An answer that was given before this is not one to a later question, even if that reads the same.
        self._left, self._answers, self._known_answers = left, [], []

    @property
    def _seconds(self) -> float | None:
        return None if self._began is None else time.monotonic() - self._began

    def _circumstances(self) -> dict[str, Any]:
        run = self._executor.run_input
        return {**self._ids, "messages": tuple(run.messages), "state": run.state}

    def _report(self, progress: Any) -> None:
        self._change(progress=(*self._execution.progress[1 - MOST_REPORTS :], progress))

    def _end(self, status: ToolStatus, content: str | list[Part], error: str | None) -> None:
        why = content if error is not None and isinstance(content, str) else None
        # The function may still have its effect, so that a late result may replace what the agent gets now.
        metadata = marked() if status == "timed out" else None
        ours: Any = {"tool_call_id": self._call.id, "content": content, "error": why, "metadata": metadata}
        self.message = ToolMessage(id=str(uuid4()), **ours)
        seconds = self._seconds
        self._change(status=status, message=self.message, seconds=seconds, error=error)
        about = {**self._ids, "tool": self._call.function.name, "status": status, "seconds": seconds}
        name, call = quoted(self._call.function.name), quoted(self._call.id)
        _logger.info("tool %s %s (call %s)", name, status, call, extra={"agui": about})

    def _change(self, **changes: Any) -> None:
        self._execution = replace(self._execution, **changes)
        self._executor.executions[self._call.id] = self._execution
        if "status" in changes:  # a report, of which a tool may make thousands, moves no ledger
            self._executor.note(self._execution)
        self._executor.observe(self._execution)


def _approval_rule(tool: OfferedTool, call: BoundCall) -> object:
    """Return whether a call waits for approval, or the function of the application that says so."""
    try:
        rule: object = tool.owner.approval(call)
    except Exception as error:
        log_failure(_logger, error, _RULE_FAILED, tool.definition.name)
        return True
    return rule if callable(rule) else _is_needed(rule)


async def _needs_approval(rule: object, request: ApprovalRequest) -> bool:
    """Return whether a call waits for approval, by its rule."""
    if not callable(rule):
        return bool(rule)
    try:
        return _is_needed(await _answer(rule, request, f"approval rule of {request.name}"))
    except Exception as error:
        log_failure(_logger, error, _RULE_FAILED, request.name)
        return True


def _is_needed(answer: object) -> bool:
    """Return whether the value of a rule has a call wait: deny by default, so only a plain no counts as no."""
    return answer is not False and answer != "never"


async def _decision(approve: Approver | None, request: ApprovalRequest, people: People | None) -> _Given:
    """Have a call approved or denied; without an answer, the call is left to the caller."""
    if approve is None:
        return None, None
    call, bounds = quoted(request.tool_call_id), bounds_of(people, approve)
    with anyio.move_on_after(bounds.wait):
        try:
            with person_asked():
                answer = await _answer(approve, request, f"approval of call {call}")
        except UsageError:
            raise
        except Exception as error:
            log_failure(_logger, error, "the approval of call %s failed, so it is denied", call)
            return Deny("The approval of this tool call failed, so it was not carried out."), "nobody"
        # What a program returns by mistake is not a person's word, neither a yes nor a no.
        if not isinstance(answer, bool | Approve | Deny):
            what = f"approve= returned {kind_of(answer)} for call {call}"
            raise UsageError(f"{what}; it returns {_DECISIONS}; the call was not decided about, and stays pending")
        given = (Approve() if answer else Deny()) if isinstance(answer, bool) else answer
        return given, "nobody" if answer is NOBODY_TO_ASK else "person"
    _logger.warning("nobody decided about call %s within %s", call, bounds.limit)
    if bounds.fallback == "leave":
        return None, None
    return Deny(f"Nobody approved this tool call within {bounds.limit}, so it was not carried out."), "nobody"


def _is_same(edited: object, shown: object) -> bool:
    """Return whether an edited argument is as it was shown; one that is not JSON is not."""
    try:
        return bool(is_same_json(edited, shown))
    except (TypeError, ValueError):
        return False


async def _answer(function: Callable[[Any], object], request: ApprovalRequest, what: str) -> object:
    """Call a rule or an approver with a request that it may change without any effect."""
    own = replace(request, arguments=copy.deepcopy(request.arguments), tool=request.tool.model_copy(deep=True))
    return await call_function(partial(function, own), what, LEFT_IN_THREAD)
