"""One call in hand: validated, approved, carried out, and answered with a sentence the agent can act on (TOOL-10)."""

from __future__ import annotations

import copy
import logging
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import anyio
from ag_ui.core import ToolMessage

from agui_client._pipeline.ownership import quoted
from agui_client._tools.approval import ApprovalRequest, Approve, Deny
from agui_client._tools.context import ToolContext
from agui_client._tools.function import FunctionTool
from agui_client.errors import ToolError
from agui_client.result import MOST_REPORTS, ToolExecution

if TYPE_CHECKING:
    from ag_ui.core import ToolCall

    from agui_client._tools.function import BoundCall
    from agui_client._tools.people import People
    from agui_client._tools.round import Round
    from agui_client.messages import Part
    from agui_client.result import ToolStatus

_logger = logging.getLogger("agui_client.tools")


class Handling:
    """A call of one of the application's tools.

    Args:
        call: The call.
        over: The run that made it.
        people: Whom to ask.
        desk: How many people may be asked at once.
        room: How many tools may run at once.
        timeout: How long a tool may take that says nothing itself, in seconds.
        approval: An approval that was given already.
    """

    def __init__(
        self,
        call: ToolCall,
        over: Round,
        people: People,
        desk: anyio.CapacityLimiter,
        room: anyio.CapacityLimiter,
        timeout: float | None,
        approval: Approve | None,
    ) -> None:
        self.message: ToolMessage | None = None
        """What the agent is told; None if the call is left to the caller."""
        self._call = call
        self._over = over
        self._people = people
        self._desk = desk
        self._room = room
        self._timeout = timeout
        self._approval = approval
        self._execution = ToolExecution(call.id, call.function.name, "waiting")
        self._untold: deque[ToolExecution] = deque()
        self._turn = anyio.Lock()
        self._has_news = anyio.Event()
        self._is_over = False
        over.record(self._execution)

    async def run(self) -> None:
        """Carry out the call, or let its message say why it was not."""
        try:
            await self._handle()
        except ToolError as error:
            await self._end("failed", error.message, error=error.message)
        finally:
            self._is_over = True
            self._has_news.set()

    def give_up(self) -> None:
        """Note that the call was not carried out, or not to its end; one that was answered stays what it is."""
        if self.message is None:
            if self._execution.status == "running":
                name, call = quoted(self._call.function.name), quoted(self._call.id)
                _logger.warning("tool %s was stopped in the middle (call %s); its effect is unknown", name, call)
            self._note(status="cancelled")

    async def _handle(self) -> None:
        name = self._call.function.name
        tool = self._over.offered.get(name)
        if not isinstance(tool, FunctionTool):
            known = ", ".join(self._over.offered) or "none"
            raise ToolError(f"There is no tool {name!r} here; there are: {known}.")
        given = None if self._approval is None else self._approval.arguments
        # What the agent sent need not even be whole if a person has given all of it.
        bound = self._bind(tool) if given is None else self._bind_edited(tool, given)
        self._note(arguments=copy.deepcopy(bound.arguments))
        await self._tell()
        match self._approval or await self._decide(tool, bound):
            case None:
                return
            case Deny(reason=reason):
                await self._end("denied", reason, error=reason)
            case Approve(arguments=edited) if edited is not None and edited is not given:
                await self._carry_out(tool, self._bind_edited(tool, edited, bound))
            case Approve():
                await self._carry_out(tool, bound)

    def _bind(self, tool: FunctionTool[..., Any]) -> BoundCall:
        try:
            return tool.bind(self._call.function.arguments)
        except ToolError as error:
            # Never a violation of the protocol (TOOL-2): the agent is told which call it was.
            raise ToolError(f"tool call {self._call.id!r}: {error}") from error

    def _bind_edited(
        self, tool: FunctionTool[..., Any], edited: Mapping[str, Any], before: BoundCall | None = None
    ) -> BoundCall:
        try:
            return tool.bind_arguments(edited, before)
        except ToolError as error:
            raise ToolError(f"tool call {self._call.id!r} was approved with other arguments, but {error}") from error

    async def _decide(self, tool: FunctionTool[..., Any], bound: BoundCall) -> Approve | Deny | None:
        result = self._over.result
        request = ApprovalRequest(
            tool_call_id=self._call.id,
            tool=tool.definition,
            arguments=bound.arguments,
            thread_id=result.thread_id,
            run_id=result.run_id,
            messages=tuple(result.messages),
            state=result.state,
        )
        async with self._desk:
            return await self._people.decide(tool.approval, request)

    async def _carry_out(self, tool: FunctionTool[..., Any], bound: BoundCall) -> None:
        async with self._room:
            self._note(status="running", arguments=copy.deepcopy(bound.arguments))
            await self._tell()
            began = time.monotonic()
            limit = self._timeout if tool.timeout is None else tool.timeout
            trace = self._over.trace.tool(name=tool.name, tool_call_id=self._call.id, description=tool.description)
            with trace:
                content: str | list[Part] | None = None
                try:
                    with anyio.move_on_after(limit):
                        content = await tool.execute(bound, self._context(bound))
                except ToolError as error:
                    trace.fail(error.__cause__ or error)
                    await self._end("failed", error.message, error=error.message, began=began)
                    return
                if content is None:
                    trace.fail("timeout")
                    late = f"The tool took longer than {limit:g} seconds and was given up; its effect is unknown."
                    await self._end("timed out", late, error=late, began=began)
                else:
                    await self._end("succeeded", content, began=began)

    def _context(self, bound: BoundCall) -> ToolContext:
        result = self._over.result
        return ToolContext(
            tool_call_id=self._call.id,
            name=self._call.function.name,
            arguments=copy.deepcopy(bound.arguments),
            thread_id=result.thread_id,
            run_id=result.run_id,
            messages=tuple(result.messages),
            state=result.state,
            on_report=self._report,
        )

    def _report(self, progress: Any) -> None:
        if len(self._untold) >= MOST_REPORTS:
            # A subscriber takes its time: it hears of this one with the next.
            self._untold.pop()
        self._note(progress=(*self._execution.progress[1 - MOST_REPORTS :], progress))
        self._has_news.set()

    async def _end(
        self, status: ToolStatus, content: str | list[Part], *, error: str | None = None, began: float | None = None
    ) -> None:
        self.message = ToolMessage(id=str(uuid4()), tool_call_id=self._call.id, content=content, error=error)
        seconds = None if began is None else time.monotonic() - began
        self._note(status=status, message=self.message, seconds=seconds)
        name, call = quoted(self._call.function.name), quoted(self._call.id)
        _logger.info("tool %s %s (call %s)", name, status, call, extra={"agui": self._logged()})
        await self._tell()

    def _logged(self) -> dict[str, Any]:
        """What a log record knows of the call; nothing of what was sent or returned."""
        execution, result = self._execution, self._over.result
        return {
            "thread_id": result.thread_id,
            "run_id": result.run_id,
            "tool_call_id": execution.tool_call_id,
            "tool": execution.name,
            "status": execution.status,
            "seconds": execution.seconds,
        }

    def _note(self, **changes: Any) -> None:
        self._execution = replace(self._execution, **changes)
        self._over.record(self._execution)
        self._untold.append(self._execution)

    async def tell_progress(self) -> None:
        """Tell what is reported, until the call is over: reports come from threads that know of no task."""
        while not self._is_over:
            await self._has_news.wait()
            self._has_news = anyio.Event()
            await self._tell()

    async def _tell(self) -> None:
        """Tell subscribers what was noted, in that order, also while one of them takes its time."""
        async with self._turn:
            while self._untold:
                await self._over.tell(self._untold.popleft())
