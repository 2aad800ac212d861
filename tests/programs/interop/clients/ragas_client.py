"""ragas' integration: `run_ag_ui_row`, as an experiment calls it; it writes errors to its log alone."""

import asyncio
import json
import logging
import sys

from ragas.integrations.ag_ui import run_ag_ui_row
from ragas.messages import HumanMessage

logged: list[str] = []
handler = logging.Handler(logging.ERROR)
handler.emit = lambda record: logged.append(record.getMessage())  # type: ignore[method-assign]
logging.getLogger("ragas").addHandler(handler)


def main() -> None:
    """Answer each line of JSON, which has the address, the prompts and the headers."""
    for line in sys.stdin:
        given = json.loads(line)
        logged.clear()
        asked = [HumanMessage(content=each) for each in given["prompts"]]
        row = {"user_input": asked if len(asked) > 1 else given["prompts"][0]}
        answered = asyncio.run(run_ag_ui_row(row, given["url"], timeout=20, extra_headers=given["headers"]))
        found = {"error": logged[0]} if logged else {"shown": answered["response"]}
        print(json.dumps(found), flush=True)


main()
