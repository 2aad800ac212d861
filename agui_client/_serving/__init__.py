"""Runs for the requests of callers, without ASGI; the public names are in `agui_client.asgi`.

The modules, from low to high: `_core.verbs.sse` (frames), `_core.verbs.one_run` (one run of a caller made of several
rounds), `_core.verbs.caller_interrupts` and `_core.verbs.signer` (what callers may answer), `_core.verbs.team_journals`
(what is kept of teams), `_core.verbs.caller_run` (the events of a call as a run of the caller), `stopping` (signals of
the process); `divergence` (inputs that leave their thread), `caller_input` (what a stored thread takes of an input),
`caller_clone`, `answering` (the run of an input), `caller_state`, `repetition` (requests that were sent before),
`connecting` (a thread again), `coalescing` (joined deltas), and `served_request`, with what functions of applications
get and raise.
"""
