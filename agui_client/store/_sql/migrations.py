"""Migrations: the version of the tables in a database, and the way from an older one to that of this package.

Threads and runs share the database and the version. A program of an older version that is at work continues beside one
that has migrated the tables, as long as its statements still hold: so a migration adds columns that may be left out,
and leaves others as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from agui_client.store._sql.tables import TABLES, VERSION

MIGRATIONS: Sequence[Sequence[str]] = ()
"""The statements that lead from each version to the next one, from version 1 on; new tables are made without them."""
_EARLIER = {"agui_version", "agui_process", "agui_run", "agui_segment"}
"""The tables that editions before the first release have made: their rows would not be found."""
_LOCK = int.from_bytes(b"agui")
"""The lock of PostgreSQL that a program takes which makes or changes the tables."""


class TablesRefusedError(Exception):
    """The tables in a database are of a newer version, or not ours."""


def advance(db: sa.Connection) -> bool:
    """Take the tables to the next version, or make those that are missing if they are of this one.

    Called in a transaction of its own, again and again until it has nothing left to do.

    Args:
        db: The connection.

    Returns:
        Whether the tables are of this version, and all there.

    Raises:
        TablesRefusedError: They are of a newer version, or not ours.
    """
    _exclude_others(db)
    _refuse_earlier(db)
    known, version = len(MIGRATIONS) + 1, _version(db)
    if version is not None and version > known:
        what = f"the tables in the database are of version {version}, and this client knows {known}"
        raise TablesRefusedError(f"{what}; upgrade the client")
    if version is not None and version < known:
        for statement in MIGRATIONS[version - 1]:
            db.exec_driver_sql(statement)
        db.execute(sa.update(VERSION).values(version=version + 1))
        return False
    _check_columns(db, TABLES.sorted_tables)
    TABLES.create_all(db)
    if version is None:
        db.execute(sa.insert(VERSION).values(version=known))
    return True


def _exclude_others(db: sa.Connection) -> None:
    """Have other programs that make or change the tables wait for the end of the transaction."""
    if db.dialect.name == "sqlite":
        connection: Any = db.connection.driver_connection
        # Python's driver begins none before statements that make tables.
        if not connection.in_transaction:
            db.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        db.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))


def _version(db: sa.Connection) -> int | None:
    """Return the version of the tables; None if they have none yet."""
    _check_columns(db, [VERSION])
    if not sa.inspect(db).has_table(VERSION.name):
        return None
    version: Any = db.execute(sa.select(sa.func.max(VERSION.c.version))).scalar_one()
    if version is not None and (not isinstance(version, int) or version < 1):
        raise TablesRefusedError(f"table {VERSION.name!r} is not ours: it has the version {version!r}")
    return version


def _refuse_earlier(db: sa.Connection) -> None:
    if found := sorted(_EARLIER & {*sa.inspect(db).get_table_names()}):
        what = f"the database has tables of an edition before the first release, such as {found[0]!r}"
        raise TablesRefusedError(f"{what}, which this client does not read: take another database, or remove them")


def _check_columns(db: sa.Connection, tables: Sequence[sa.Table]) -> None:
    """Check that the tables that are there have the columns of ours."""
    inspector = sa.inspect(db)
    for table in tables:
        if not inspector.has_table(table.name):
            continue
        there = {each["name"] for each in inspector.get_columns(table.name)}
        if missing := sorted({each.name for each in table.c} - there):
            what = f"table {table.name!r} has no column {missing[0]!r}"
            how = "an earlier edition of this client has made it, or another program: take another database"
            raise TablesRefusedError(f"{what}; {how}, or remove it")
