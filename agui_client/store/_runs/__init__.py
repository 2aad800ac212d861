"""Runs that outlive their connection, and with a URL their process: callers come, leave and come back.

    run = await store.runs.start(planner, "Plan a trip")
    async for cursor, event in store.runs.follow(run.run_id): ...

The modules, from low to high: `_core.agent.run_records` (descriptions of runs), `earlier_attempts` (the way of
followers from events that were cut to those that replace them), `run_log` (the events of one run), `server_run` (the
task that writes them), `run_registry` (the runs of a process, and their bounds), `on_waiting` (the functions to call
with runs that wait), `memory_keeper`; for runs that outlive their process `remote_runs` (runs of other processes),
`attempts` (what is stored of a run) and `database_keeper`; then `kept_runs` (what apps and batches use), `program_runs`
(runs that programs begin) and `runs`. The addresses of a served agent whose runs are kept are in `asgi._run_addresses`.
"""
