"""State that the application and the agent both write: typed, edited in blocks, merged, and watched.

`HttpAgent(url, state_model=Trip)`, `agent.typed_state`, `agent.edit_state()`, `agent.observe_state(path)` and
`agent.on_state(path)` are on every agent. Here are the three-way merge as a function, and the names for annotations.
"""

from agui_client._core.agent.state_edits import StateConflictError, StateEdit
from agui_client._core.conversation.state_merging import ABSENT, Conflict, ConflictPolicy, Merge, Sides, merge

__all__ = ["ABSENT", "Conflict", "ConflictPolicy", "Merge", "Sides", "StateConflictError", "StateEdit", "merge"]
