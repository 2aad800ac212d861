"""Runs that answer the requests of callers, without ASGI; the public names are in `agui_client.asgi`.

The modules, from low to high: `_core.surfaces.sse` (frames), `_core.surfaces.one_run` (one run of a caller made of
several rounds), `_core.surfaces.caller_interrupts`, `_core.surfaces.signer` and `_core.surfaces.signed_journal` (what
callers may send back), `_core.surfaces.caller_run` (the events of a call as a run of the caller), `stopping` (signals
of the process); `caller_input` (the run of an input), `caller_state`, `repetition` (requests that were sent before),
`connecting` (a thread again), `coalescing` (joined deltas), and `served_request` and `refusals`, which functions of
applications get and raise.
"""
