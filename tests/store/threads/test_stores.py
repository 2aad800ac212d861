"""Every store of the package passes the contract; the SQL store makes and checks its tables."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from traceback import format_exception
from uuid import uuid4

import pytest

pytest.importorskip("sqlalchemy", reason="needs the extra store: pip install 'agui-client[store]'")

from agui_client import ThreadBusyError, ThreadStoreError
from agui_client.store import MemoryStore, Store, ThreadInfo, ThreadStore
from agui_client.testing import ScriptedAgent, ThreadStoreContract, text, turn
from support.postgres import PostgresServer
from support.stores import sql_store


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class TestMemoryStore(ThreadStoreContract):
    def new_store(self) -> ThreadStore:
        return MemoryStore()


class _LeastStore(MemoryStore):
    delete_all = ThreadStore.delete_all


class TestWhatNoStoreNeedsToOverride(ThreadStoreContract):
    def new_store(self) -> ThreadStore:
        return _LeastStore()

    @pytest.mark.anyio
    async def test_threads_that_are_in_use_or_of_unknown_owners_are_not_deleted(self) -> None:
        async with Store(self.new_store()) as store:
            threads = store.threads
            async with threads.open("t", ScriptedAgent(turn(text("Hello.")))) as agent:
                await agent.run_agent("Hi")
                with pytest.raises(ThreadBusyError, match="thread 't' is in use elsewhere; 0 were deleted"):
                    await threads.delete(owner="")
            with pytest.raises(ThreadStoreError, match="_LeastStore does not know its owners: override delete_all"):
                await threads.delete(everybody=True)
            assert await threads.delete(owner="") == 1


class _SQLContract(ThreadStoreContract):
    @pytest.mark.anyio
    async def test_a_text_that_no_database_takes_is_an_error_without_the_text(self) -> None:
        store, owner = self.new_store(), uuid4().hex
        try:
            number = await store.lease(owner, "t", 60)
            assert number is not None
            now = datetime.now(UTC)
            info, entry = ThreadInfo("t", "", now, now, 0), "sesame \ud800"
            with pytest.raises(ThreadStoreError) as refused:
                await store.append(owner, info, entry, number, 0)
            assert "sesame" not in "".join(format_exception(refused.value))
            assert await store.append(owner, info, "{}", number, 0)
        finally:
            await store.aclose()


class TestSQLite(_SQLContract):
    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _file(cls, tmp_path_factory: pytest.TempPathFactory) -> None:
        cls.path = tmp_path_factory.mktemp("stores") / "threads.db"

    path: Path

    def new_store(self) -> ThreadStore:
        return sql_store(f"sqlite:///{self.path}")


class TestPostgreSQL(_SQLContract):
    address: str

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _database(cls, postgresql: PostgresServer) -> None:
        cls.address = postgresql.new_database()

    def new_store(self) -> ThreadStore:
        return sql_store(f"postgresql://{self.address}")


@pytest.mark.anyio
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such permissions")
@pytest.mark.parametrize("address", ["sqlite:///{}", "sqlite:///file:{}?uri=true"])
async def test_a_new_database_and_the_files_beside_it_belong_to_their_owner(address: str, tmp_path: Path) -> None:
    kept, new = tmp_path / "kept.db", tmp_path / "new.db"
    kept.touch()
    kept.chmod(0o640)
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "linked.db")
    before = os.umask(0)
    try:
        for path in (kept, new, link):
            async with Store(address.format(path)) as store:
                await store.threads.get("t")
                files = [Path(f"{path.resolve()}{ending}") for ending in ("", "-wal", "-shm")]
                modes = [each.stat().st_mode & 0o777 for each in files]
            assert modes == [0o640 if path is kept else 0o600] * 3
    finally:
        os.umask(before)
