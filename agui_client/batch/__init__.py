"""Batch: an agent, or several, run on every row of a table, with a journal from which a killed program resumes.

    batch = run_many(agent, "prompts.csv", prompt="question", key="id", journal="out.jsonl")
    async for done in batch:
        print(done.key, done.text)

The modules, from low to high: `_rows` (the input), `_results` (a finished row), `_tables` (files of results),
`_journal`, `_pace` (rate, retries, budgets), `_progress`, `_workers` (rows in another process), `_clusters` (Dask's),
`_kept_rows` (rows as runs that are kept), `_places` (where rows run), `_batch`, and `_comparison` (of two batches).
Parquet needs the extra `batch`.
"""

from agui_client.batch._batch import Batch, run_many
from agui_client.batch._comparison import BatchComparison, RowChange, compare
from agui_client.batch._pace import Budget, RowRetry
from agui_client.batch._progress import AgentSummary, Progress, Summary
from agui_client.batch._results import RowError, RowResult
from agui_client.batch._tables import table, write_table
from agui_client.batch._workers import ClusterError, WorkerLostError

__all__ = [
    "AgentSummary",
    "Batch",
    "BatchComparison",
    "Budget",
    "ClusterError",
    "Progress",
    "RowChange",
    "RowError",
    "RowResult",
    "RowRetry",
    "Summary",
    "WorkerLostError",
    "compare",
    "run_many",
    "table",
    "write_table",
]
