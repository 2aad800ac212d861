"""An AG-UI agent as the task of pydantic-evals. It needs `pip install pydantic-evals`.

Run it with the URL of an agent: `python pydantic_evals_task.py http://localhost:8000/`. For a journal, a pace and
repetitions, see examples/evaluate.py, where a batch collects the answers before.
"""

import sys
from collections.abc import Awaitable, Callable

from pydantic_evals import Case, Dataset, set_eval_attribute
from pydantic_evals.evaluators import Contains

from agui_client import HttpAgent


def task_of(url: str) -> Callable[[str], Awaitable[str]]:
    """Return a task: the agent's reply to a prompt, each in a conversation of its own."""

    async def task(prompt: str) -> str:
        result = await HttpAgent(url).run_agent(prompt)
        set_eval_attribute(
            "tools",
            [call.function.name for each in result.messages for call in getattr(each, "tool_calls", None) or ()],
        )
        return result.text

    return task


def main(url: str) -> None:
    cases = [Case(name="oslo", inputs="Plan my Saturday in Oslo.", evaluators=(Contains("outdoors"),))]
    Dataset[str, str, None](name="saturdays", cases=cases).evaluate_sync(task_of(url)).print()


if __name__ == "__main__":
    main(*sys.argv[1:])
