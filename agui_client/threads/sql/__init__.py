"""The store in a SQL database: SQLite and PostgreSQL, through SQLAlchemy (extra `threads`).

The modules, from low to high: `thread_tables`, `statements` (the operations), `database_errors` (exceptions of
databases), `database` (transactions on SQLite and on PostgreSQL), `sql_store` (the store). The public names are those
of `agui_client.threads`.
"""

from sqlalchemy.ext.asyncio import AsyncEngine

from agui_client.threads.sql.sql_store import PoolOptions, SQLStore

__all__ = ["AsyncEngine", "PoolOptions", "SQLStore"]
