"""Sessions: the Fleet, and the one way to start an agent, with what it is told and what it used."""

from droveway.agents import Outcome, OutputError, Role, Usage
from droveway.sessions.fleet import Fleet
from droveway.sessions.model import AgentRequest, TurnResult
from droveway.sessions.prompts import one_line, render_prompt
from droveway.sessions.running import run_agent
from droveway.sessions.walls import Walls, passed, run_walled

__all__ = [
    "AgentRequest",
    "Fleet",
    "Outcome",
    "OutputError",
    "Role",
    "TurnResult",
    "Usage",
    "Walls",
    "one_line",
    "passed",
    "render_prompt",
    "run_agent",
    "run_walled",
]
