"""The inspector: every moment of a recorded run on a page, and what differs between two recordings.

    Path("run.html").write_bytes(inspector_page(Recording.read("run.jsonl")))

`result.inspect()` shows the same of a call whose events were kept.
"""

from agui_client.inspector._comparison import Comparison, Difference, compare
from agui_client.inspector._page import inspector_page

__all__ = ["Comparison", "Difference", "compare", "inspector_page"]
