"""Conversations of an evaluation as samples of ragas, whose metrics score them.

It needs `pip install ragas "langchain-community<0.4"`: ragas 0.4.3 imports a module that newer versions have not.
Run it with the URL of an agent: `python ragas_samples.py http://localhost:8000/`.
"""

import sys

from ag_ui.core import AssistantMessage, ToolMessage, UserMessage
from ragas.dataset_schema import MultiTurnSample
from ragas.messages import AIMessage, HumanMessage, ToolCall
from ragas.messages import ToolMessage as RagasToolMessage

from agui_client import HttpAgent
from agui_client.evaluation import Scenario, Trial, evaluate_sync


def sample_of(trial: Trial) -> MultiTurnSample:
    """Return a conversation with its tool calls and their results."""
    messages: list[HumanMessage | AIMessage | RagasToolMessage] = []
    calls = iter(trial.calls)
    for message in trial.messages:
        match message:
            case UserMessage():
                messages.append(HumanMessage(content=str(message.content)))
            case AssistantMessage():
                made = [next(calls) for _ in message.tool_calls or ()]
                named = [ToolCall(name=each.name, args=each.arguments) for each in made]
                messages.append(AIMessage(content=message.content or "", tool_calls=named or None))
            case ToolMessage():
                messages.append(RagasToolMessage(content=str(message.content)))
            case _:
                pass  # ragas knows neither reasoning nor activities
    return MultiTurnSample(user_input=messages)


def main(url: str) -> None:
    scenario = Scenario(name="saturday", says=["Plan my Saturday in Oslo.", "And my Sunday?"])
    for outcome in evaluate_sync(HttpAgent(url), scenario, repeat=2).outcomes:
        if outcome.trial is not None:
            print(sample_of(outcome.trial).pretty_repr())


if __name__ == "__main__":
    main(*sys.argv[1:])
