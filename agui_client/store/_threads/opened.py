"""A thread that is open: a block that has the lease of the thread, and saves the conversation of its agent.

    NEW ── entered ──▶ OPEN ── left, or not opened ──▶ LEFT
                        └───── its Store closed  ─────┴────▶ CLOSED

In a process that was forked from its own, a block is a copy and does nothing. Only the store knows whether the block
still has its lease: it refuses writes with the number of a lease that was taken over.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import anyio
import anyio.to_thread
from ag_ui.core import Message, ResumeEntry, TokenUsage, aggregate_token_usage

from agui_client._core.agent.agent import AbstractAgent
from agui_client._core.conversation.log import (
    BETWEEN_CALLS,
    Log,
    Members,
    RunHistory,
    as_text,
    empty_members,
    entry_of,
    log_of,
)
from agui_client._core.ground.concurrency import no_collection
from agui_client._core.ground.field_docs import Record
from agui_client._core.ground.plain_text import sendable
from agui_client._core.protocol.message_text import content_text
from agui_client._core.protocol.open_items import quoted
from agui_client._core.run.continuing import (
    READS_ONLY,
    Carried,
    StoredBeginning,
    StoredBranch,
    StoredCall,
    ThreadLog,
)
from agui_client._core.run.observers import RunObserver
from agui_client.errors import ThreadBusyError, ThreadStoreError, ThreadStoreUnavailableError, UsageError
from agui_client.store._threads.branches import branches_with_beginnings
from agui_client.store._threads.entries import (
    CutPlace,
    call_of,
    cut,
    document_and_members,
    document_of,
    is_identical,
    members_of,
    reading,
)
from agui_client.store._threads.known_logs import KnownLogs
from agui_client.store._threads.leases import take
from agui_client.store._threads.thread_store import ThreadInfo, ThreadStore
from agui_client.store._threads.worker import StoreLoop
from agui_client.store._write_ids import new_write_id

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager, AsyncExitStack
    from types import TracebackType

    from agui_client._core.conversation.snapshot import ConversationSnapshot
    from agui_client._core.run.checkpoint import Checkpoint
    from agui_client._core.run.observers import RunEnd
    from agui_client._core.run.scope import RunScope
    from agui_client.store._threads.branches import Branch
    from agui_client.store._threads.worker import StoreCall

AgentT = TypeVar("AgentT", bound=AbstractAgent)
Titler = Callable[[Sequence[Message]], str]
"""Makes the title of a thread of its messages."""

_logger = logging.getLogger("agui_client.threads")
_LONGEST_TITLE = 80
_LONG = 5_000
"""The number of messages from which a conversation is long."""
_RENEWALS = 3
"""The number of renewals in the time of a lease."""


@dataclass(frozen=True, slots=True)
class UnfinishedRun(Record):
    """A run that was in progress when its program ended, so that its end is unknown."""

    run_id: str
    """The id of the run."""
    resume: Sequence[ResumeEntry]
    """The answers to interrupts that the run carried, as long as it was unknown whether the agent got them; the
    interrupts are pending again."""


class Service:
    """The parts that all threads of one store share.

    Args:
        lease: The seconds that a lease lasts, in stores of which the process has no lease of its own.
        title: Makes the titles of new threads.
    """

    def __init__(self, store: ThreadStore, lease: float, title: Titler) -> None:
        self.store: ThreadStore = store
        self.title: Titler = title
        self.loop: StoreLoop = StoreLoop(store)
        """The event loop of the store."""
        self.lease: float = lease if store.process_lease is None else inf
        """The seconds that a lease lasts; infinite if it lasts as long as the process has its own."""
        self.blocks: set[OpenThread[Any]] = set()
        """The open blocks."""
        self.known: KnownLogs = KnownLogs()
        """The logs of the threads that were open lately."""

    async def answers(self, within: float) -> bool:
        """Return whether the store responds within some seconds."""
        with suppress(ThreadStoreError, TimeoutError):
            async with asyncio.timeout(within):
                await self.store.check()
            return True
        return False

    def refuse_calls(self) -> Sequence[StoreCall[Exception | None]]:
        """Begin to close the open blocks, and refuse all other calls; return the failure of each block. Idempotent."""
        return self.loop.refuse_calls(
            lambda: [call for block in self.blocks.copy() if (call := block.close()) is not None]
        )


class _Phase(Enum):
    NEW = "new"
    """Not entered yet."""
    OPEN = "open"
    """Entered: the lease is waited for, or the thread is in use."""
    LEFT = "left"
    """Left, or not opened because an exception came first."""
    CLOSED = "closed"
    """Left because its `Store` was closed; leaving the block changes nothing any more."""


@dataclass(frozen=True, slots=True)
class _Unanswered:
    """A write of which nobody knows yet whether it was carried out."""

    info: ThreadInfo
    entry: str
    note: Callable[[], None]
    beside: Sequence[Carried] = ()
    write_id: str = field(default_factory=new_write_id)


class OpenThread(Generic[AgentT]):
    """A block, for `async with` and `with`, that gives a clone of the agent with the conversation of the thread.

    Made by `Threads.open`. The block has the lease of the thread, and renews it until it is left.
    """

    def __init__(self, service: Service, thread_id: str, agent: AgentT, owner: str, wait: float) -> None:
        self.thread_id = thread_id
        """The id of the thread."""
        self.owner = owner
        """The owner of the thread."""
        self.info: ThreadInfo | None = None
        """The description of the thread as it was saved last; None if it never was."""
        self.is_for_one_call = False
        """Whether the block is left right behind the only call in it, and so saves the end of the call."""
        self.cut_off: UnfinishedRun | None = None
        """The run that was in progress when the program that had the thread before ended; None if there was none."""
        self._given, self._wait = agent, wait
        self._store, self._loop, self._seconds = service.store, service.loop, service.lease
        self._title, self._blocks, self._known = service.title, service.blocks, service.known
        self._agent: AgentT | None = None
        self._members: Members = empty_members()
        self._past = RunHistory()
        self._entries = 0
        self._unanswered: _Unanswered | None = None
        self._beside: list[Carried] = []
        self._call_id: str | None = None
        self._new_members: Members | None = None
        self._given_last: Members | None = None
        self._usage: list[TokenUsage] = []
        self._phase = _Phase.NEW
        self._number: int | None = None
        self._process, self._reads_only = os.getpid(), False
        self._lock = asyncio.Lock()
        self._renewal: asyncio.Task[None] | None = None
        self._unwatch: Callable[[], None] = lambda: None

    async def __aenter__(self) -> AgentT:
        self._check_new()
        if self._store.process_lease is not None:
            self._unwatch = self._store.process_lease.watch()
        try:
            restored = self._restoring(document := await self._loop.call(self._open))
            # To restore a long conversation takes some tenths of a second, in which the event loop would stand still.
            is_long = document is not None and len(document.messages) > _LONG
            agent = await anyio.to_thread.run_sync(restored) if is_long else restored()
            return self._begin(agent, is_new=document is None)
        except BaseException:
            self._give_up()
            raise

    def __enter__(self) -> AgentT:
        self._check_new()
        try:
            document = self._loop.call(self._open).result()
            return self._begin(self._restoring(document)(), is_new=document is None)
        except BaseException:
            self._give_up()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if (left := self._left()) is None:
            return
        with anyio.CancelScope(shield=True):
            await left
        self._report(left.result(), error)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if (left := self._left()) is not None:
            self._report(left.result(), error)

    def close(self) -> StoreCall[Exception | None] | None:
        """Leave the block because its `Store` is closed.

        Returns:
            The call that saves the thread and gives its lease back, with the failure to do so; None in a forked child,
            as the parent continues with the block.
        """
        if self._is_in_child:
            return None
        self._phase = _Phase.CLOSED
        return self._loop.call(self._leaving())

    # --- in the program's threads

    def _check_new(self) -> None:
        if self._phase is not _Phase.NEW:
            raise UsageError("a thread's block can be entered once; call open() again")
        self._phase = _Phase.OPEN
        self._process, self._reads_only = os.getpid(), READS_ONLY.get()
        self._blocks.add(self)

    @property
    def _is_in_child(self) -> bool:
        """Whether this is a copy of the block, in a process that was forked from its own."""
        return self._process != os.getpid()

    def _check_open(self) -> None:
        thread = f"thread {self.thread_id!r}"
        if self._is_in_child:
            what = f"{thread} is open in the process that this one was forked from"
            raise UsageError(f"{what}, which continues with it; open it in this one when it is free")
        if self._phase is _Phase.CLOSED:
            raise UsageError(f"the store was closed, so nothing more of {thread} is saved; make another Store()")
        if self._phase is _Phase.LEFT:
            raise UsageError(f"the block of {thread} was left, so nothing is saved; open it again")

    def _left(self) -> StoreCall[Exception | None] | None:
        """Begin to leave the block; return None if closed threads have left it, or the parent process will."""
        if self._is_in_child:
            return None
        leaving = self._leaving()
        try:
            return self._loop.call(leaving)
        except UsageError:
            if self._phase is _Phase.CLOSED:
                return None
            raise

    def _restoring(self, document: ConversationSnapshot | None) -> Callable[[], AgentT]:
        """Clone the agent; return a function that gives the clone the conversation, if there is one, and returns it."""
        self._check_open()
        agent = self._given.clone(thread_id=self.thread_id)

        def restore() -> AgentT:
            """Restore the conversation."""
            if document is not None:
                with no_collection():
                    # Calls of the same ids in a conversation that the agent had before are other calls.
                    agent.set_messages([])
                    agent.restore(document)
            return agent

        return restore

    def _begin(self, agent: AgentT, *, is_new: bool) -> AgentT:
        """Have the conversation of an agent saved from now on."""
        self._check_open()
        log = ThreadLog(self._past, self._find_call, self._find_beginning, self._find_branches, self._carry)
        if self._reads_only:
            return agent.save_with(None, log=log)
        if is_new:
            self._new_members = members_of(agent.checkpoint())
        else:
            self._warn(agent)
        agent.add_observer(_UsageObserver(agent, self._usage))
        agent.save_with(self._save, log=log)
        self._agent = agent
        return agent

    def _warn(self, agent: AgentT) -> None:
        thread = quoted(self.thread_id)
        if self.cut_off is not None:
            run = quoted(self.cut_off.run_id)
            _logger.warning("thread %s: its program ended during run %s; its end is unknown", thread, run)
        pending = {call.id for call in agent.pending_tool_calls}
        # The agent was told of the others.
        for call in (each for each in agent.unknown_tool_calls if each.id in pending):
            about = quoted(call.function.name), quoted(call.id)
            _logger.warning("thread %s: tool %s was stopped in call %s; its effect is unknown", thread, *about)

    def _carry(self, operation: Carried) -> bool:
        carries = self._store.carries(operation.database)
        if carries:
            self._beside.append(operation)
        return carries

    async def _find_call(self, call_id: str) -> StoredCall | None:
        """Find a call in the thread as it is stored."""
        if (found := await self._stored()) is None:
            return None
        with reading(self.thread_id):
            return await anyio.to_thread.run_sync(call_of, self.thread_id, found[1], call_id)

    async def _find_beginning(self, message_id: str | None) -> StoredBeginning:
        """Find the beginning of the thread as it is stored, up to a message."""
        if (found := await self._stored()) is None:
            raise UsageError(f"there is no thread {self.thread_id!r}")
        at = CutPlace.BEGINNING if message_id is None else message_id
        return await self._cut(*found, at)

    async def _find_branches(self) -> Sequence[StoredBranch]:
        """Find what the thread was each time that it went back to an earlier message."""
        if (found := await self._stored()) is None:
            return ()
        info, entries = found

        async def find_beginning(branch: Branch, message_id: str) -> StoredBeginning:
            """Find the thread as it was then, up to a message, without questions: those of a branch are withdrawn."""
            return await self._cut(info, entries[: branch.entries], message_id, are_questions_kept=False)

        with reading(self.thread_id):
            branches = await anyio.to_thread.run_sync(branches_with_beginnings, entries)
        return [StoredBranch(messages, partial(find_beginning, branch)) for branch, messages in branches]

    async def _cut(self, info: ThreadInfo, entries: Sequence[str], at: str | CutPlace, **how: bool) -> StoredBeginning:
        """Return what a thread with some entries was up to a message."""
        with reading(self.thread_id):
            members = (await anyio.to_thread.run_sync(partial(cut, entries, at, **how))).members
            return StoredBeginning(document_of(self.thread_id, members), info.updated_at)

    async def _stored(self) -> tuple[ThreadInfo, Sequence[str]] | None:
        return await self._loop.call(partial(self._store.read, self.owner, self.thread_id))

    async def _save(self, checkpoint: Checkpoint) -> None:
        """Save the conversation of the agent."""
        self._check_open()
        if (thread_id := checkpoint.members["thread_id"]) != self.thread_id:
            what = f"the agent of thread {self.thread_id!r} went over to thread {thread_id!r}"
            raise UsageError(f"{what}, which is not saved; open that one, or import_() its conversation")
        members = members_of(checkpoint)
        if self._given_last is not None and is_identical(self._given_last, members):
            return
        if self.is_for_one_call and checkpoint.is_at_end and checkpoint.call_id is None:
            return
        call = self._loop.call(partial(self._write, members))
        with anyio.CancelScope(shield=True):
            await call
        self._given_last = members

    def _leaving(self) -> Callable[[], Coroutine[Any, Any, Exception | None]]:
        self._leave_phase()
        if self._agent is None or not self._agent.is_saved:
            return partial(self._leave, None)
        try:
            checkpoint = self._agent.checkpoint()
        except RuntimeError as error:
            # A run in another thread changed a list or dictionary meanwhile; what was saved last is a second old.
            _logger.warning("thread %s stays as it was saved last: %s", quoted(self.thread_id), error)
            return partial(self._leave, None)
        is_ours = checkpoint.members["thread_id"] == self.thread_id
        return partial(self._leave, members_of(checkpoint) if is_ours else None)

    def _leave_phase(self) -> None:
        self._unwatch()
        if self._phase is not _Phase.CLOSED:
            self._phase = _Phase.LEFT

    def _give_up(self) -> None:
        self._leave_phase()
        with suppress(UsageError):
            _ = self._loop.call(partial(self._leave, None))

    def _report(self, failure: Exception | None, error: BaseException | None) -> None:
        """Raise the failure of the last save, unless the block was left by an exception of its own."""
        if failure is not None and error is None:
            raise failure
        if failure is not None:
            _logger.error("thread %s was not saved at its end: %s", quoted(self.thread_id), failure)

    # --- in the loop of the store

    async def _open(self) -> ConversationSnapshot | None:
        async with self._lock:
            with reading(self.thread_id):
                if (found := await (self._read() if self._reads_only else self._take())) is None:
                    return None
                self.info, log = found
                self._members, self._past, self._entries = log.begun, log.past.copy(), log.count
                if (run := self._members["run"]) is not None:
                    self.cut_off = UnfinishedRun(run["run_id"], run["resume"])
                document, self._members = document_and_members(self.thread_id, self._members)
            return document

    async def _read(self) -> tuple[ThreadInfo, Log] | None:
        """Return what is stored of the thread."""
        found = await self._store.read(self.owner, self.thread_id)
        return None if found is None else (found[0], log_of(found[1]))

    async def _take(self) -> tuple[ThreadInfo, Log] | None:
        """Take the lease of the thread, renew it from now on, and return what is stored of the thread."""
        store, this, check = self._store, (self.owner, self.thread_id), self._check_open
        known = self._known.get(*this)
        lease = store.lease_and_read if known is None else partial(store.lease_and_read, end=known.end)
        taken = await take(lease, store, *this, self._seconds, self._wait, check=check)
        self._number = taken.number
        if self._seconds < inf:
            self._renewal = asyncio.create_task(self._renew())
        return None if taken.found is None else (taken.found[0], self._known.read_on(*this, known, taken))

    async def _renew(self) -> None:
        pause, is_ours = self._seconds / _RENEWALS, True
        while is_ours:
            await asyncio.sleep(pause)
            try:
                # Never beside the last write, which gives the lease back: a lease that was renewed after that
                # would not be given back.
                async with self._lock:
                    if self._number is None:
                        return
                    renewed = await self._store.lease(self.owner, self.thread_id, self._seconds, self._number)
                    is_ours = renewed is not None
            except Exception as error:
                _logger.warning("the lease of thread %s was not renewed: %s", quoted(self.thread_id), error)

    async def _write(self, members: Members, *, is_last: bool = False) -> None:
        """Append what has changed since the last save, and give the lease back with the last entry."""
        async with self._lock:
            await self._settle_unanswered()
            # The block of a call distinguishes its end from what others write behind a call that was cut.
            self._call_id = members["call_id"] or self._call_id
            members = {**members, "ended_call_id": None if members["call_id"] else self._call_id}
            number = self._entries + 1
            make = partial(entry_of, self._members, members, number)
            old, new = self._members["state"], members["state"]
            # Two large states may take some tenths of a second to compare, and other threads have this loop, too.
            entry = make() if old is new or not (old or new) else await asyncio.to_thread(make)
            if is_last and self._call_id is None and self._is_as_before(members):
                return
            if entry is None and not self._beside:
                return
            # What goes with the write waits for it, and so does who asked for that.
            entry = entry or as_text({}, number)
            now, usage = datetime.now(UTC), list(self._usage)
            before = self.info or ThreadInfo(self.thread_id, "", now, now, 0)
            info = replace(
                before,
                title=before.title or self._made_title(members["messages"]),
                updated_at=max(now, before.updated_at),
                message_count=len(members["messages"]),
                usage=aggregate_token_usage([*before.usage, *usage]),
            )
            note = partial(self._note_written, info, members, len(usage))
            beside, self._beside = self._beside, []
            await self._append(_Unanswered(info, entry, note, beside), is_last=is_last)
            if is_last:
                self._number = None

    def _is_as_before(self, members: Members) -> bool:
        """Return whether a conversation is the stored one, but for what a program that ended had in progress."""
        # That program, or one that takes its run over, may yet continue from there.
        in_progress = {name: self._members[name] for name in BETWEEN_CALLS if name != "results"}
        return entry_of(self._members, {**members, **in_progress}, 1) is None

    async def _append(self, written: _Unanswered, *, is_last: bool = False) -> None:
        append = self._store.append_and_release if is_last else self._store.append
        self._unanswered = written
        try:
            about: dict[str, Any] = {"write_id": written.write_id}
            about |= {"beside": written.beside} if written.beside else {}
            is_written = self._number is not None and await append(
                self.owner, written.info, written.entry, self._number, self._entries, **about
            )
        except ThreadStoreError as error:
            if not isinstance(error, ThreadStoreUnavailableError):
                self._unanswered = None  # it was refused
            raise
        except Exception:
            if written.beside:
                self._unanswered = None  # what goes with it was refused, and both were undone
            for each in written.beside:
                each.undone()
            raise
        self._unanswered = None
        if not is_written:
            what = f"thread {self.thread_id!r} was taken over by another block, or deleted"
            raise ThreadBusyError(f"{what}; nothing more of this side is saved; open the thread again")
        written.note()
        for each in written.beside:
            each.done()

    async def _settle_unanswered(self) -> None:
        """Repeat a write whose response never came, as a connection may break between the commit and the response.

        It is known by its id, so that it is written once. One that arrives later than this does not fit any more.
        """
        if self._unanswered is not None and self._number is not None:
            await self._append(self._unanswered)

    def _note_written(self, info: ThreadInfo, members: Members, usages: int) -> None:
        self._past.note(members, self._members)
        self.info, self._members, self._entries = info, members, self._entries + 1
        del self._usage[:usages]

    async def _leave(self, members: Members | None) -> Exception | None:
        """Save what the agent's conversation has become, and give the lease back."""
        failure: Exception | None = None
        try:
            # A block in which nothing happened makes no thread: a server refuses requests in such blocks.
            begun = None if self.info is not None else self._new_members
            has_changed = begun is None or members is None or entry_of(begun, members, 1) is not None
            if members is not None and self._number is not None and has_changed:
                await self._write(members, is_last=True)
        except Exception as error:
            failure = error
            if self._phase is _Phase.CLOSED:
                _logger.error("thread %s was not saved when its threads were closed: %s", quoted(self.thread_id), error)
        async with self._lock:
            if self._renewal is not None:
                self._renewal.cancel()
            number, self._number = self._number, None
            if number is not None:
                with suppress(ThreadStoreError):
                    await self._store.lease(self.owner, self.thread_id, 0, number)
        self._blocks.discard(self)
        return failure

    def _made_title(self, messages: Sequence[Message]) -> str:
        try:
            return sendable(" ".join(self._title(messages).replace("\0", "").split())[:_LONGEST_TITLE])
        except Exception:
            _logger.exception("the title of thread %s could not be made", quoted(self.thread_id))
            return ""


async def enter_for_call(block: AbstractAsyncContextManager[AgentT], stack: AsyncExitStack) -> AgentT:
    """Enter the block that the agent of one call comes in, and return the agent.

    Args:
        stack: The stack that is left right behind the call, before anything else depends on the end of the call. So a
            thread is saved at its end once, as its lease is given back.
    """
    if isinstance(block, OpenThread):
        block.is_for_one_call = True
    return await stack.enter_async_context(block)


class _UsageObserver(RunObserver):
    """Collects the tokens of the runs of an agent, and not of its clones."""

    def __init__(self, agent: AbstractAgent, usage: list[TokenUsage]) -> None:
        self._agent, self._usage = agent, usage

    def on_end(self, run: RunScope, end: RunEnd) -> None:
        """Add the tokens of a run."""
        if run.owner is self._agent:
            self._usage.extend(end.usage)


def first_prompt(messages: Sequence[Message]) -> str:
    """Return the text of the first message of a user, as the title of a thread."""
    for message in messages:
        if message.role == "user":
            return content_text(message.content, " ", names_media=False)
    return ""
