"""What threads and runs share of SQL databases: `faults` (the kinds of their exceptions), `versions` (of the tables).

Only modules that need the extra `threads` or `durable` import it.
"""
