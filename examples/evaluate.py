"""An agent evaluated with pydantic-evals: a batch collects its answers, with a journal, and evaluators judge them.

Give it the URL of an agent and a journal, or let it ask the demo agent. It needs `pip install pydantic-evals`.
"""

import sys
from tempfile import TemporaryDirectory

from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import Contains

from agui_client import HttpAgent
from agui_client.batch import run_many
from agui_client.demo import demo_agent
from agui_client.testing import serve

CASES = Dataset[str, str, None](
    name="saturdays",
    cases=[
        Case(name="oslo", inputs="Plan my Saturday in Oslo.", evaluators=(Contains("outdoors"),)),
        Case(name="bergen", inputs="Plan my Saturday in Bergen.", evaluators=(Contains("umbrella"),)),
    ],
)


def main(url: str, journal: str = "answers.jsonl") -> None:
    rows = [{"case": case.name, "prompt": case.inputs} for case in CASES.cases]
    batch = run_many(HttpAgent(url), rows, key="case", at_once=20, journal=journal)
    answers = {done.prompt: done.text if done.error is None else f"failed: {done.error.message}" for done in batch}
    report = CASES.evaluate_sync(answers.__getitem__, name="demo", progress=False)
    report.print(include_input=True, include_output=False, include_durations=False)
    print(batch.summary)


if __name__ == "__main__":
    if sys.argv[1:]:
        main(*sys.argv[1:])
    else:
        with serve(demo_agent(pace=0.1)) as server, TemporaryDirectory() as folder:
            main(server.url, f"{folder}/answers.jsonl")
