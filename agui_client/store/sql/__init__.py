"""Threads and runs in a SQL database: SQLite and PostgreSQL, through SQLAlchemy (extra `store`).

What both share: `times`, `tables`, `database_faults` (the kinds of exceptions of databases), `process_lease`,
`transactions`, `versions` (of the tables) and `database`. Threads have `thread_rows`, `thread_statements`,
`database_errors` and `sql_store`; runs have `run_rows` and `run_database`. But for
`times`, only modules that need an extra import it.
"""
