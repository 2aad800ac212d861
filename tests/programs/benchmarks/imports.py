"""The CPU time that importing and the shortest commands take, in fresh interpreters with compiled bytecode."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from tempfile import TemporaryDirectory

from programs.benchmarks.measure import Row, child_environment

_OURS = "from agui_client import HttpAgent"
_REFERENCE = "import ag_ui.core, httpx, httpx_sse"
_VERSION, _HELP = "agui --version", "agui --help"
_PROGRAMS = {
    "nothing": ["-c", "pass"],
    **{statement: ["-c", statement] for statement in (_OURS, _REFERENCE, "import agui_client")},
    **{command: ["-m", "agui_client", *command.split()[1:]] for command in (_VERSION, _HELP)},
}
_ROUNDS = 3


def importing(repeat: int) -> list[Row]:
    """Import the package and an agent, held against its libraries; and have the command line say what it is."""
    with TemporaryDirectory() as cache:
        environment = child_environment(PYTHONPYCACHEPREFIX=cache)
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        rounds = [
            {name: _seconds(arguments, environment) for name, arguments in _PROGRAMS.items()}
            for _ in range(1 + _ROUNDS * repeat)
        ]
    times = {name: min(each[name] for each in rounds[1:]) for name in _PROGRAMS}
    ours, lazy, reference = (times[name] - times["nothing"] for name in (_OURS, "import agui_client", _REFERENCE))
    return [
        Row(_OURS, ours / reference, 1.2, _REFERENCE, f"{ours * 1e3:.0f} / {reference * 1e3:.0f} ms"),
        Row("import agui_client", lazy / reference, 0.2, _REFERENCE, f"{lazy * 1e3:.0f} / {reference * 1e3:.0f} ms"),
        *(Row(name, times[name], 0.25, "a second", f"{times[name] * 1e3:.0f} ms") for name in (_VERSION, _HELP)),
    ]


def _seconds(arguments: list[str], environment: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], env=environment, cwd=os.sep, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
