"""Threads and runs in a SQL database: SQLite and PostgreSQL, through SQLAlchemy (extra `store`).

What both share: `times`, `tables`, `faults` (the kinds of exceptions of databases), `lease`,
`transactions`, `migrations` (of the tables) and `database`. Threads have `thread_rows`, `thread_statements`,
`errors` and `threads`; runs have `run_rows`, `transcripts` and `runs`. But for `times`, only modules that need an extra
import it.
"""
