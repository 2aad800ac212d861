"""Agents together: teams of agents, remote or local, of any framework, that are agents themselves.

    team = SequentialAgent(researcher, writer)
    result = await team.run_agent("Write about Oslo.")

A member's events come between SUBAGENT_STARTED and SUBAGENT_FINISHED or SUBAGENT_ERROR, under ids of their own; its
questions are the team's questions, and the answers reach the member that asked, also in another process.
"""

from agui_client._core.run.subagents import SubagentResult
from agui_client.teams._agents import HandoffAgent, LoopAgent, ParallelAgent, RouterAgent, SequentialAgent, TeamAgent
from agui_client.teams._handover import Handover
from agui_client.teams._limits import TeamLimitError, TeamLimits
from agui_client.teams._members import Member
from agui_client.teams._subagent_run import SubagentRun
from agui_client.teams._team import Team

__all__ = [
    "HandoffAgent",
    "Handover",
    "LoopAgent",
    "Member",
    "ParallelAgent",
    "RouterAgent",
    "SequentialAgent",
    "SubagentResult",
    "SubagentRun",
    "Team",
    "TeamAgent",
    "TeamLimitError",
    "TeamLimits",
]
