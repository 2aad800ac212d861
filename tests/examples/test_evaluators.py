"""Agents in the evaluators of others: the recipes of examples/evaluators, where these are installed.

`nox -s evaluators`, or `python -m tests.programs.evaluators`, makes an environment for each, and runs this file in it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from agui_client import HttpAgent
from agui_client.demo import demo_agent
from agui_client.evaluation import Scenario, evaluate_sync
from agui_client.testing import Server, serve

RECIPES = Path(__file__).parents[2] / "examples" / "evaluators"
PROMPT = "Plan my Saturday in Oslo."


@pytest.fixture
def server() -> Iterator[Server]:
    with serve(demo_agent(pace=0)) as server:
        yield server


def loaded(recipe: str) -> dict[str, Any]:
    """Return the names of a recipe."""
    names: dict[str, Any] = {"__name__": recipe}
    exec(compile((RECIPES / f"{recipe}.py").read_text("utf-8"), recipe, "exec"), names)
    return names


def test_a_pydantic_evals_task_is_a_call_of_the_agent(server: Server) -> None:
    evals: Any = pytest.importorskip("pydantic_evals", reason="needs pydantic-evals: pip install pydantic-evals")
    contains: Any = import_module("pydantic_evals.evaluators").Contains
    task = loaded("pydantic_evals_task")["task_of"](server.url)
    checks = [contains("outdoors"), contains("umbrella")]
    dataset = evals.Dataset(name="x", cases=[evals.Case(name="oslo", inputs=PROMPT)], evaluators=checks)
    (case,) = dataset.evaluate_sync(task, progress=False).cases
    assert [each.value for each in case.assertions.values()] == [True, False]
    assert case.attributes["tools"] == ["get_weather"]


def test_an_inspect_task_has_the_agent_as_its_solver(server: Server, tmp_path: Path) -> None:
    inspect_ai: Any = pytest.importorskip("inspect_ai", reason="needs Inspect: pip install inspect-ai")
    task = loaded("inspect_task")["saturdays"](server.url)
    (log,) = inspect_ai.eval(task, model="mockllm/model", log_dir=str(tmp_path), display="none")
    assert log.status == "success", log.error
    assert {each.id: each.scores["includes"].value for each in log.samples} == {"oslo": "C", "bergen": "I"}
    assert log.samples[0].metadata["tools"] == ["get_weather"]


def test_a_ragas_sample_has_the_calls_and_results_of_a_conversation(server: Server) -> None:
    pytest.importorskip("ragas", reason="needs ragas: pip install ragas 'langchain-community<0.4'")
    (outcome,) = evaluate_sync(HttpAgent(server.url), Scenario(name="x", says=[PROMPT, "And Sunday?"])).outcomes
    sample = loaded("ragas_samples")["sample_of"](outcome.trial)
    kinds = [type(each).__name__ for each in sample.user_input]
    assert kinds.count("HumanMessage") == kinds.count("ToolMessage") == 2
    calls = [call.name for each in sample.user_input for call in getattr(each, "tool_calls", None) or ()]
    assert calls == ["get_weather", "get_weather"]


def test_a_promptfoo_provider_returns_answers_and_errors(server: Server) -> None:
    call_api = loaded("promptfoo_provider")["call_api"]
    answer = call_api(PROMPT, {"config": {"url": server.url}}, {})
    assert "outdoors" in answer["output"]
    assert answer["metadata"] == {"tools": ["get_weather"]}
    assert answer["tokenUsage"]["total"] == answer["tokenUsage"]["prompt"] + answer["tokenUsage"]["completion"] > 0
    assert "nothing listens there" in call_api(PROMPT, {"config": {"url": "http://127.0.0.1:1/"}}, {})["error"]


def test_promptfoo_evaluates_the_agent(server: Server, tmp_path: Path) -> None:
    promptfoo = os.environ.get("AGUI_PROMPTFOO") or shutil.which("promptfoo")
    if promptfoo is None:
        pytest.skip("needs promptfoo: npm install -g promptfoo, or AGUI_PROMPTFOO=PATH")
    shutil.copy(RECIPES / "promptfoo_provider.py", tmp_path)
    (tmp_path / "promptfooconfig.yaml").write_text(
        "prompts: ['Plan my Saturday in {{city}}.']\n"
        f"providers: [{{id: 'file://promptfoo_provider.py', config: {{url: '{server.url}'}}}}]\n"
        "tests:\n"
        "- {vars: {city: Oslo}, assert: [{type: contains, value: outdoors}]}\n"
        "- {vars: {city: Bergen}, assert: [{type: contains, value: umbrella}]}\n",
        "utf-8",
    )
    silent = {"PROMPTFOO_DISABLE_TELEMETRY": "1", "PROMPTFOO_DISABLE_UPDATE": "1", "PROMPTFOO_PYTHON": sys.executable}
    env = {**os.environ, **silent, "PROMPTFOO_CONFIG_DIR": str(tmp_path / "own")}
    command = [promptfoo, "eval", "--no-cache", "--no-progress-bar", "--no-write", "-o", "out.json"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=180, check=False)
    assert '"successes": 1' in (tmp_path / "out.json").read_text("utf-8"), done.stderr
