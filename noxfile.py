"""The sessions that `nox` runs: `nox -s ci` is what each change must pass; `nox` alone takes hours, and has no bound.

Each session has an environment of its own, and calls what a person would call by hand; CONTRIBUTING.md has the
list. What a session needs besides Python (npm, Chromium, PostgreSQL) stands in its docstring.
"""

from __future__ import annotations

import nox

nox.options.sessions = [
    "ci",
    "soak",
    "pythons",
    "wheel",
    "frameworks",
    "planted",
    "evaluators",
    "typescript",
    "browsers",
]

_SOAK = {
    "AGUI_ALL_SPLITS": "1",
    "AGUI_BATCH_KILLS": "50",
    "AGUI_BATCH_ROWS": "2000",
    "AGUI_BROWSER": "1",
    "AGUI_CLIENT_CUTS": "3",
    "AGUI_CLIENT_EVERY_VERB": "1",
    "AGUI_CLIENT_KILLS": "60",
    "AGUI_CLIENT_MOMENTS": "200",
    "AGUI_CLIENT_OUTAGES": "1",
    "AGUI_DISPLAYS": "200",
    "AGUI_TEAMS": "20",
    "AGUI_THREADS": "1",
    "AGUI_THREADS_KILLS": "200",
}
"""How much a soak does of what the tests sample; each variable is explained where it is read."""


@nox.session(venv_backend="none")
def ci(session: nox.Session) -> None:
    """Run everything that must hold, in new environments."""
    session.run(".ci/run", external=True)


@nox.session
def soak(session: nox.Session) -> None:
    """Run all tests, with every case that the fast tier samples; needs PostgreSQL, and Chromium for pages."""
    session.install(".[dev]")
    session.run("pytest", "-m", "", *session.posargs, env=_SOAK)
    session.run("pytest", "-m", "", "--hypothesis-profile=soak", "tests/properties")
    session.run("python", "tests/programs/soak.py")


@nox.session(venv_backend="none")
def pythons(session: nox.Session) -> None:
    """Run a selection of the tests with the newer Pythons that are installed."""
    session.run(".ci/pythons", external=True)


@nox.session(venv_backend="none")
def wheel(session: nox.Session) -> None:
    """Run a story for each extra with the wheel that would be published, each with nothing else installed."""
    session.run(".ci/wheel", "--alone", external=True)


@nox.session
def frameworks(session: nox.Session) -> None:
    """Run against real servers, each framework in an environment of its own, and behind a proxy that cuts them off."""
    session.install(".[dev]")
    for program in (
        "tests.programs.interop",
        "tests.programs.interop.clients",
        "tests.programs.interop.mounting",
        "tests.programs.interop.cuts",
    ):
        session.run("python", "-m", program)


@nox.session
def evaluators(session: nox.Session) -> None:
    """Run the recipes for the evaluators of others, each in an environment of its own; needs npm."""
    session.install(".[dev]")
    session.run("python", "-m", "tests.programs.evaluators", *session.posargs)


@nox.session
def planted(session: nox.Session) -> None:
    """Let a gate find planted faults in real servers, stop starts, and let the agent be away."""
    session.install(".[dev]")
    session.run("python", "-m", "tests.programs.planted", *session.posargs)


@nox.session
def engines(session: nox.Session) -> None:
    """Kill an application with a workflow engine of its own, and the server that its steps ask."""
    session.install(".[dev]", "dbos")
    session.run("python", "-m", "tests.programs.engines", env={"PYTHONPATH": "tests:."})


@nox.session
def typescript(session: nox.Session) -> None:
    """Have the official TypeScript client and CopilotKit's runtime read what is served; needs npm."""
    session.install(".[dev]")
    session.run("python", "tests/programs/streams_against_typescript.py")
    session.run("python", "tests/programs/runs_against_typescript.py")


@nox.session
def browsers(session: nox.Session) -> None:
    """Touch pages and notebooks with a browser; needs Chromium, PostgreSQL and npm."""
    session.install(".[dev]")
    session.run("python", "-m", "tests.programs.service_browser")
    session.run("python", "-m", "tests.programs.notebook_browser")
    session.run("python", "-m", "tests.programs.surfaces_browser")
    session.run("python", "-m", "tests.programs.pages_browser")


@nox.session
def costs(session: nox.Session) -> None:
    """Measure what runs cost, and serve many streams with a deploy in the middle; needs PostgreSQL."""
    session.install(".[dev]")
    session.run("python", "-m", "tests.programs.benchmarks.run")
    session.run("python", "-m", "tests.programs.load", "--streams", "500")


@nox.session
def mutation(session: nox.Session) -> None:
    """Draw mutants, and see whether a test fails: `nox -s mutation -- --module agui_client/_core/tools --sample 9`."""
    session.install(".[dev]", "mutmut>=3.8")
    session.run("python", "-m", "tests.programs.mutation", "--learn", "tests")
    session.run("python", "-m", "tests.programs.mutation", *session.posargs)
