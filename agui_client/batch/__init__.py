"""Batch: an agent, or several, run on every row of a table, with a journal that a killed program goes on with.

    batch = run_many(agent, "prompts.csv", prompt="question", key="id", journal="out.jsonl")
    async for done in batch:
        print(done.key, done.text)

The modules, from low to high: `rows` (the input), `results` (a finished row), `tables` (files of results), `journal`,
`pace` (rate, retries, budgets), `progress`, `workers` (rows in another process), `clusters` (Dask's),
`places` (where rows run), `batch`, and `comparison` (of two batches). Parquet needs the extra `batch`.
"""

from agui_client.batch.batch import Batch, run_many
from agui_client.batch.batch_comparison import BatchComparison, RowChange, compare
from agui_client.batch.pace import Budget, RowRetry
from agui_client.batch.progress import AgentSummary, Progress, Summary
from agui_client.batch.results import RowError, RowResult
from agui_client.batch.tables import table, write_table
from agui_client.batch.workers import ClusterError, WorkerLostError

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
