"""Datalayer's `AGUIClient`, whose module is loaded by its place, without the package around it."""

import asyncio
import importlib.util
import json
import sys
import sysconfig
from pathlib import Path

place = Path(sysconfig.get_path("purelib")) / "agent_runtimes" / "transports" / "clients" / "ag_ui_client.py"
spec = importlib.util.spec_from_file_location("ag_ui_client", place)
module = importlib.util.module_from_spec(spec)
sys.modules["ag_ui_client"] = module
spec.loader.exec_module(module)

DOUBLE = {
    "name": "double",
    "description": "Double a number.",
    "parameters": {"type": "object", "properties": {"number": {"type": "integer"}}},
}


async def double(name: str, tool_call_id: str, arguments: dict) -> str:
    """Double a number."""
    return str(2 * arguments["number"])


async def ask(url: str, prompts: list[str], headers: dict[str, str]) -> str:
    """Ask, and return the text that a person sees at the end."""
    async with module.AGUIClient(url, headers=headers, timeout=20) as client:
        shown = ""
        for prompt in prompts:
            shown = ""
            async for event in client.run_with_tools(prompt, double, tools=[DOUBLE]):
                shown += event.delta or ""
                if event.error:
                    raise module.AGUIClientError(event.error)
        return shown


def main() -> None:
    """Answer each line of JSON, which has the address, the prompts and the headers."""
    for line in sys.stdin:
        try:
            shown = {"shown": asyncio.run(ask(**json.loads(line)))}
        except Exception as error:
            shown = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(shown), flush=True)


main()
