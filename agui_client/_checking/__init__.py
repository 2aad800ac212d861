"""Checking: the faults of an event stream that is there already, all of them in one reading.

`agui_client.validate` is `check.validate`. The modules, from low to high: `texts` (a text split into the events in it),
`stream_faults` (the faults that were found, each kind once), `check`.
"""
