"""What threads and runs share of SQL databases: `faults` (the kinds of their exceptions), `versions` (of the tables).

But for `times`, only modules that need the extra `threads` or `durable` import it.
"""
