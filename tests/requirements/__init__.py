"""Everything the client promises about the protocol, one record per rule; tests name the rules they prove by id.

    @pytest.mark.requirement("LIFE-1", "LIFE-2")

`test_requirements.py` holds the mapping complete both ways. Families: `processing` (PROC, LIFE, TRUNC, USAGE),
`streaming` (STREAM, CHUNK, REASON, META, SUB), `conversation` (TOOL, SNAP, STATE, ACT, INT), `wire` (INPUT, SSE, PB,
VER, CAP, PASS, SEC), and `settled` (SET), with a row for each question the specification leaves open.
"""

from __future__ import annotations

from requirements.conversation import CONVERSATION
from requirements.model import Requirement
from requirements.processing import PROCESSING
from requirements.settled import SETTLED
from requirements.streaming import STREAMING
from requirements.wire import WIRE

__all__ = ["FAMILIES", "REQUIREMENTS", "Requirement"]

FAMILIES = (PROCESSING, STREAMING, CONVERSATION, WIRE, SETTLED)
REQUIREMENTS = {requirement.id: requirement for family in FAMILIES for requirement in family}
