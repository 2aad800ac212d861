"""An AG-UI agent as the solver of an Inspect task. It needs `pip install inspect-ai`.

Run it with `inspect eval inspect_task.py --model none -T url=http://localhost:8000/`: the agent has its own model.
"""

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageAssistant, ModelOutput
from inspect_ai.scorer import includes
from inspect_ai.solver import Generate, Solver, TaskState, solver

from agui_client import HttpAgent


@solver
def agui(url: str) -> Solver:
    """Have the agent answer the input; each sample has a conversation of its own."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        result = await HttpAgent(url).run_agent(state.input_text)
        state.messages.append(ChatMessageAssistant(content=result.text))
        state.output = ModelOutput.from_content(model="agui", content=result.text)
        state.metadata["tools"] = [
            call.function.name for each in result.messages for call in getattr(each, "tool_calls", None) or ()
        ]
        return state

    return solve


@task
def saturdays(url: str = "http://localhost:8000/") -> Task:
    samples = [
        Sample(id="oslo", input="Plan my Saturday in Oslo.", target="outdoors"),
        Sample(id="bergen", input="Plan my Saturday in Bergen.", target="umbrella"),
    ]
    return Task(dataset=samples, solver=agui(url), scorer=includes())
