"""Threads: the public face of a store."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, TypeVar, overload
from uuid import uuid4

from agui_client._core.conversation.log import add_up, as_text, empty_members, entry_of, members_of_document
from agui_client._core.conversation.snapshot import ConversationSnapshot
from agui_client._core.ground.field_docs import Record
from agui_client._core.protocol.problems import shortened
from agui_client._core.protocol.schema import is_text
from agui_client.errors import ThreadBusyError, ThreadStoreError, UsageError
from agui_client.store._threads.branches import Branch, branches_of
from agui_client.store._threads.documents import Format, exported, imported
from agui_client.store._threads.entries import CutPlace, cut, document_of, reading
from agui_client.store._threads.leases import take
from agui_client.store._threads.message_pages import MessagePage, PageEnd, page_of
from agui_client.store._threads.opened import AgentT, OpenThread, Service
from agui_client.store._threads.thread_store import ThreadInfo
from agui_client.store._threads.worker import StoreCall

T = TypeVar("T")
_ALL: Any = object()
"""Stands for all threads: an id that is None by mistake deletes none."""

_MOST_BYTES = 1000
"""The bytes of the longest owner or id: PostgreSQL indexes both together, in no more than 2,704."""


@dataclass(frozen=True, slots=True)
class SavedThread(Record):
    """A thread as it was saved last."""

    info: ThreadInfo
    """The description."""
    conversation: ConversationSnapshot
    """The messages, the state and what is pending; `agent.restore()` takes it."""


class Threads:
    """Conversations that are kept in a database, or in memory: `store.threads`.

        store = Store("sqlite:///chats.db")
        async with store.threads.open("thread-1", agent, owner="ann") as agent:
            await agent.run_agent("...")

    Methods other than `open` begin their work at once: `await` them, or call `result()` on what they return where there
    is no `await`. An owner sees no thread of another owner. Works with asyncio, with trio, and without either.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._store, self._loop, self._lease = service.store, service.loop, service.lease

    def open(self, thread_id: str | None, agent: AgentT, *, owner: str = "", wait: float = 5.0) -> OpenThread[AgentT]:
        """Open a thread for a block: `async with threads.open(...) as agent`, or `with` in a program without `await`.

        Args:
            thread_id: The id of the thread, which is made if there is none; None for a new id.
            agent: The agent to continue with. The block gives a clone of it, with the conversation of the thread; a new
                thread begins with the agent's own conversation.
            owner: The owner of the thread.
            wait: The most seconds to wait while another block has the thread open.

        Returns:
            The block. Entering it raises `ThreadBusyError` if another block has the thread, and `ThreadStoreError` if
            the database fails.

        Raises:
            UsageError: The id or the owner is not text, or longer than 1000 bytes in UTF-8, or the id is empty.
        """
        new_id = str(uuid4()) if thread_id is None else _checked_new("thread_id", thread_id)
        return OpenThread(self._service, new_id, agent, _checked("owner", owner), wait)

    def list(
        self, *, owner: str = "", limit: int = 50, after: ThreadInfo | None = None
    ) -> StoreCall[Sequence[ThreadInfo]]:
        """List the threads of an owner, those that were saved last first.

        Args:
            limit: The most to return.
            after: The last thread of the page before; None for the first page.

        Raises:
            UsageError: The limit is not a number of threads.
        """
        return self._call(self._store.list, owner, _checked_limit("threads", limit), after)

    def get(self, thread_id: str, *, owner: str = "") -> StoreCall[SavedThread | None]:
        """Return a thread as it was saved last; None if there is none. It does not wait for the lease."""
        return self._call(self._get, owner, _checked("thread_id", thread_id))

    def messages(
        self, thread_id: str, *, limit: int = 50, before: str | None = None, owner: str = ""
    ) -> StoreCall[MessagePage]:
        """Return the last messages of a thread, or those before them, as they were saved last.

        A page costs the same in a long thread as in a short one; `get` reads the whole thread, and has what is pending.
        Results of tools are among the messages as soon as a run sends them. It does not wait for the lease.

        Args:
            limit: The most messages to return.
            before: The `before` of the page behind the one that is asked for; None for the last messages. It is good as
                long as the thread is there, and for the messages as they were when that page was read.

        Raises:
            UsageError: There is no such thread, the limit is not a number of messages, or `before=` is not of one of
                its pages.
        """
        end = None if before is None else PageEnd.from_cursor(before)
        return self._call(
            self._messages, owner, _checked("thread_id", thread_id), _checked_limit("messages", limit), end
        )

    def fork(
        self, thread_id: str, *, at: str | Branch | None = None, new_id: str | None = None, owner: str = ""
    ) -> StoreCall[str]:
        """Make a thread that begins like another one, and shares what came before with it.

        Args:
            thread_id: The thread to begin with.
            at: The id of its last message in the new thread, which also gets the results of that message's calls; or
                one of its `branches`; None for all messages.
            new_id: The id of the new thread; None makes one.
            owner: The owner of both.

        Returns:
            The id of the new thread.

        Raises:
            UsageError: There is no such thread or message, or there is a thread with the new id.
        """
        to = str(uuid4()) if new_id is None else _checked_new("new_id", new_id)
        return self._call(self._fork, owner, _checked("thread_id", thread_id), at, to)

    def rewind(self, thread_id: str, at: str | Branch, *, owner: str = "", wait: float = 5.0) -> StoreCall[None]:
        """Take a thread back to one of its messages, with the state that was saved with that message.

        Functions that were called since are not called again. What the thread leaves is one of its `branches`.

        Args:
            at: The id of the message that becomes the last one; the results of its calls stay, too. Or one of its
                `branches`, to which the thread comes back.
            wait: The most seconds to wait while a block has the thread open.

        Raises:
            UsageError: There is no such thread or message.
            ThreadBusyError: A block has the thread open.
        """
        return self._call(self._rewind, owner, _checked("thread_id", thread_id), at, wait)

    def branches(self, thread_id: str, *, owner: str = "") -> StoreCall[Sequence[Branch]]:
        """List what a thread has left each time that it went back to an earlier message, the latest first.

        `fork(thread_id, at=branch)` makes a thread of a branch, and `rewind(thread_id, branch)` comes back to it.

        Raises:
            UsageError: There is no such thread.
        """
        return self._call(self._branches, owner, _checked("thread_id", thread_id))

    @overload
    def delete(self, thread_id: str, *, owner: str = "", wait: float = 5.0) -> StoreCall[bool]: ...

    @overload
    def delete(self, *, owner: str) -> StoreCall[int]: ...

    @overload
    def delete(self, *, everybody: Literal[True]) -> StoreCall[int]: ...

    def delete(
        self, thread_id: Any = _ALL, *, owner: str | None = None, wait: float = 5.0, everybody: bool = False
    ) -> StoreCall[bool] | StoreCall[int]:
        """Delete a thread, or without its id all threads of an owner.

        Args:
            thread_id: The thread; forks of it keep what they share.
            owner: The owner. Without the id of a thread, it has to be given: its threads are deleted with all forks,
                also those that blocks have open, whose runs fail before they send or execute anything more.
            wait: The most seconds to wait while a block has the one thread open.
            everybody: Whether the threads of all owners are deleted.

        Returns:
            Whether there was such a thread; without an id, the number of threads that were deleted.

        Raises:
            UsageError: Neither a thread, nor an owner, nor everybody is named.
            ThreadBusyError: A block has the one thread open.
        """
        if thread_id is not _ALL:
            return self._call(self._delete, owner or "", _checked("thread_id", thread_id), wait)
        if everybody is (owner is not None):
            raise UsageError("delete takes a thread, or owner= for all threads of an owner, or everybody=True")
        return self._loop.call(partial(self._delete_all, None if everybody else _checked("owner", owner)))

    def export(self, thread_id: str, form: Format = "json", *, owner: str = "") -> StoreCall[str]:
        """Return a thread as text.

        Args:
            form: "md" for reading, "json" or "jsonl" for `import_`; JSON lines have one message a line.

        Raises:
            UsageError: There is no such thread, or no such format.
        """
        return self._call(self._export, owner, _checked("thread_id", thread_id), form)

    def import_(self, document: str, *, thread_id: str | None = None, owner: str = "") -> StoreCall[str]:
        """Make a thread of one that was exported.

        Args:
            document: The text of `export(..., "json")` or `export(..., "jsonl")`.
            thread_id: The id of the new thread; None takes that of the exported one.
            owner: The owner of the new thread.

        Returns:
            The id of the new thread.

        Raises:
            UsageError: The text is not an exported thread, or there is a thread with that id.
        """
        new_id = None if thread_id is None else _checked_new("thread_id", thread_id)
        return self._call(self._import, owner, document, new_id)

    # --- in the loop of the store

    def _call(self, function: Callable[..., Coroutine[Any, Any, T]], owner: str, *args: object) -> StoreCall[T]:
        return self._loop.call(partial(function, _checked("owner", owner), *args))

    async def _get(self, owner: str, thread_id: str) -> SavedThread | None:
        with reading(thread_id):
            if (found := await self._store.read(owner, thread_id)) is None:
                return None
            info, entries = found
            return SavedThread(info, document_of(thread_id, add_up(entries)))

    async def _messages(self, owner: str, thread_id: str, limit: int, end: PageEnd | None) -> MessagePage:
        with reading(thread_id):
            if (page := await page_of(self._store, owner, thread_id, limit, end)) is None:
                raise _no_thread(owner, thread_id)
            return page

    async def _branches(self, owner: str, thread_id: str) -> Sequence[Branch]:
        with reading(thread_id):
            if (found := await self._store.read(owner, thread_id)) is None:
                raise _no_thread(owner, thread_id)
            return branches_of(found[1])

    async def _fork(self, owner: str, thread_id: str, at: str | Branch | None, new_id: str) -> str:
        with reading(thread_id):
            if (found := await self._store.read(owner, thread_id)) is None:
                raise _no_thread(owner, thread_id)
            info, entries = found
            here = cut(entries, CutPlace.END if at is None else at)
            document_of(new_id, here.members)  # or the fork would be as damaged as its thread
        number = here.shared + 1
        entry = entry_of(here.before, here.members, number) or as_text({}, number)
        new = replace(info, thread_id=new_id, usage=(), message_count=len(here.members["messages"]))
        await self._make(owner, new, entry, (thread_id, entries[: here.shared]))
        return new_id

    async def _make(
        self, owner: str, info: ThreadInfo, entry: str, shared: tuple[str, Sequence[str]] | None = None
    ) -> None:
        """Write the first entry of a new thread; of a fork also the thread and the entries that it begins with."""
        now, thread_id = datetime.now(UTC), info.thread_id
        number = await take(self._store.lease, self._store, owner, thread_id, self._lease, 0)
        try:
            if await self._store.read(owner, thread_id) is not None:
                raise UsageError(f"there is a thread {thread_id!r} already")
            made = replace(info, created_at=now, updated_at=now)
            start = None if shared is None else (shared[0], len(shared[1]))
            is_made = await self._store.append(owner, made, entry, number, 0, start)
            if is_made and shared is not None:
                # The thread may have been deleted since it was read, and another one made under its id.
                found = await self._store.read(owner, thread_id)
                if found is None or list(found[1]) != [*shared[1], entry]:
                    await self._store.delete(owner, thread_id, number)
                    is_made = False
            if not is_made:
                raise UsageError(f"thread {thread_id!r} could not be made: the thread to fork was deleted meanwhile")
        finally:
            await self._store.lease(owner, thread_id, 0, number)

    async def _rewind(self, owner: str, thread_id: str, at: str | Branch, wait: float) -> None:
        store = self._store
        with reading(thread_id):
            taken = await take(store.lease_and_read, store, owner, thread_id, self._lease, wait)
        try:
            if taken.found is None:
                raise _no_thread(owner, thread_id)
            info, entries = taken.found
            with reading(thread_id):
                members = cut(entries, at).members
                entry = entry_of(add_up(entries), members, len(entries) + 1)
            changed = replace(info, updated_at=datetime.now(UTC), message_count=len(members["messages"]))
            if entry is not None and not await store.append(owner, changed, entry, taken.number, len(entries)):
                raise ThreadBusyError(f"thread {thread_id!r} was taken over by another block, and is as it was")
        finally:
            await store.lease(owner, thread_id, 0, taken.number)

    async def _delete(self, owner: str, thread_id: str, wait: float) -> bool:
        self._service.known.forget(owner, thread_id)
        number = await take(self._store.lease, self._store, owner, thread_id, self._lease, wait)
        return await self._store.delete(owner, thread_id, number)

    async def _delete_all(self, owner: str | None) -> int:
        self._service.known.forget(owner)
        return await self._store.delete_all(owner)

    async def _export(self, owner: str, thread_id: str, form: Format) -> str:
        if (saved := await self._get(owner, thread_id)) is None:
            raise _no_thread(owner, thread_id)
        return exported(saved.info, saved.conversation, form)

    async def _import(self, owner: str, text: str, thread_id: str | None) -> str:
        document = imported(text)
        new_id, now = thread_id, datetime.now(UTC)
        if new_id is None:
            new_id = _checked("the id in the exported thread, or thread_id", document.conversation.thread_id)
        if not new_id:
            raise UsageError("the id in the exported thread is empty; give it another one with thread_id=")
        members = members_of_document(document.conversation) | {"unreceived_ids": None}
        entry = entry_of(empty_members(), members, 1) or as_text({}, 1)
        try:
            add_up([entry])
        except ThreadStoreError as error:
            raise UsageError(f"the exported thread could not be read again, so it is not imported: {error}") from None
        title, count = document.title.replace("\0", ""), len(document.conversation.messages)
        await self._make(owner, ThreadInfo(new_id, title, now, now, count, document.usage), entry)
        return new_id


def _no_thread(owner: str, thread_id: str) -> UsageError:
    return UsageError(f"there is no thread {thread_id!r} {f'of owner {owner!r}' if owner else 'without an owner'}")


def _checked(name: str, value: object) -> str:
    """Return an owner or an id if all databases can hold it and agree on its equals: numbers and None differ there."""
    if not isinstance(value, str) or not is_text(value) or "\0" in value:
        raise UsageError(f"{name}= takes a text of whole characters without NUL, not {shortened(value)}")
    if len(value.encode()) > _MOST_BYTES:
        raise UsageError(f"{name}= takes at most {_MOST_BYTES} bytes, not {shortened(value)}")
    return value


def _checked_limit(of: str, value: object) -> int:
    """Return the most things that a page may have."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UsageError(f"limit= is a number of {of} from 0 up, not {value!r}")
    return value


def _checked_new(name: str, value: object) -> str:
    """Return the id of a thread to make, which is not empty."""
    if not (checked := _checked(name, value)):
        raise UsageError(f"{name}= is empty; leave it out, or give the thread an id")
    return checked
