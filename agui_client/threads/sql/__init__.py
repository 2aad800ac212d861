"""The store in a SQL database: SQLite and PostgreSQL, through SQLAlchemy (extra `threads`).

The modules, from low to high: `thread_tables`, `statements` (the operations), `database_errors` (exceptions of
databases), `sql_store` (the store). The public names are those of `agui_client.threads`.
"""

from sqlalchemy import Engine

from agui_client.threads.sql.sql_store import SQLStore

__all__ = ["Engine", "SQLStore"]
