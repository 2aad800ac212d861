"""The version of the tables in a database, and the way from an older one to that of this package.

Threads and runs may share a database, so they share the version; each of them makes the tables that it needs. A program
of an older version that is at work goes on beside one that has migrated the tables, as long as its statements still
hold: so a migration adds columns that may be left out, and leaves others as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

MIGRATIONS: Sequence[Mapping[str, Sequence[str]]] = ()
"""What leads from each version to the next one, from version 1 on: statements, by the name of the table they change."""
_VERSIONS = sa.Table("agui_version", sa.MetaData(), sa.Column("version", sa.Integer, primary_key=True))
_LOCK = int.from_bytes(b"agui")
"""The lock of PostgreSQL that a program takes which makes or changes the tables."""


class TablesRefusedError(Exception):
    """The tables in a database are of a newer version, or not ours."""


def advance(db: sa.Connection, tables: sa.MetaData) -> bool:
    """Take the tables to the next version, or make those that are missing if they are of this one.

    Called in a transaction of its own, again and again until it has nothing left to do.

    Args:
        db: The connection.
        tables: The tables that the caller needs, of this version.

    Returns:
        Whether the tables are of this version, and all there.

    Raises:
        TablesRefusedError: They are of a newer version, or not ours.
    """
    _exclude_others(db)
    known, version = len(MIGRATIONS) + 1, _version(db)
    if version is not None and version > known:
        what = f"the tables in the database are of version {version}, and this client knows {known}"
        raise TablesRefusedError(f"{what}; upgrade the client")
    if version is not None and version < known:
        for name, statements in MIGRATIONS[version - 1].items():
            for statement in statements if sa.inspect(db).has_table(name) else ():
                db.exec_driver_sql(statement)
        db.execute(sa.update(_VERSIONS).values(version=version + 1))
        return False
    _check_columns(db, tables)
    tables.create_all(db)
    if version is None:
        _VERSIONS.create(db, checkfirst=True)
        db.execute(sa.insert(_VERSIONS).values(version=known))
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
    _check_columns(db, _VERSIONS.metadata)
    if not sa.inspect(db).has_table(_VERSIONS.name):
        return None
    version: Any = db.execute(sa.select(sa.func.max(_VERSIONS.c.version))).scalar_one()
    if version is not None and (not isinstance(version, int) or version < 1):
        raise TablesRefusedError(f"table {_VERSIONS.name!r} is not ours: it has the version {version!r}")
    return version


def _check_columns(db: sa.Connection, tables: sa.MetaData) -> None:
    """Check that the tables that are there have the columns of ours."""
    inspector = sa.inspect(db)
    for table in tables.sorted_tables:
        if not inspector.has_table(table.name):
            continue
        there = {each["name"] for each in inspector.get_columns(table.name)}
        if missing := sorted({each.name for each in table.c} - there):
            what = f"table {table.name!r} has no column {missing[0]!r}"
            how = "an earlier edition of this client has made it, or another program: take another database"
            raise TablesRefusedError(f"{what}; {how}, or remove it")
