"""An agent that is asked about every row of a table, with a journal: stop the program with Ctrl-C, and start it again.

Give it the URL of an agent, a file with the columns `id` and `question`, and a journal, or let it ask the demo agent.
"""

import sys
from tempfile import TemporaryDirectory

from agui_client import HttpAgent
from agui_client.batch import Budget, run_many
from agui_client.demo import demo_agent
from agui_client.testing import serve

QUESTIONS = [{"id": place, "question": f"Plan my Saturday in {place}."} for place in ("Oslo", "Bergen", "Tromsø")]


def main(url: str, rows: object = QUESTIONS, journal: str = "answers.jsonl") -> None:
    batch = run_many(
        HttpAgent(url),
        rows,
        prompt="question",
        key="id",
        at_once=2,
        per_minute=600,
        budget=Budget(failures=10),
        journal=journal,
    )
    for done in batch:  # `async for`, in a program with await
        answer = done.text if done.error is None else f"failed: {done.error.message}"
        print(f"{done.key}: {answer.splitlines()[0][:60]}")
        print(batch.progress, file=sys.stderr)
    print(batch.summary)


if __name__ == "__main__":
    if sys.argv[1:]:
        main(*sys.argv[1:])
    else:
        with serve(demo_agent(pace=0.1)) as server, TemporaryDirectory() as folder:
            main(server.url, journal=f"{folder}/answers.jsonl")
