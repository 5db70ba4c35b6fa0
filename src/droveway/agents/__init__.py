"""Agents: the providers, their command lines, their supervision, and what their answers mean (AGT-001 … AGT-011).

The names are loaded when they are used: ``python -m droveway.agents.scripted`` starts for every scripted call and needs
none of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from droveway.agents.contracts import OutputError, parse_output, schema
    from droveway.agents.environment import agent_environment, prepare
    from droveway.agents.model import AgentResult, AgentRun, Invocation, Outcome, Provider, Usage
    from droveway.agents.outcomes import is_suspicious
    from droveway.agents.providers import PROVIDERS
    from droveway.agents.roles import Role
    from droveway.agents.script import Call, Entry, NoEntryError, Step, load_script, parse_script
    from droveway.agents.scripted import Played, StepError, perform, play
    from droveway.agents.supervision import supervise

_HOMES = {
    "contracts": ("OutputError", "parse_output", "schema"),
    "environment": ("agent_environment", "prepare"),
    "model": ("AgentResult", "AgentRun", "Invocation", "Outcome", "Provider", "Usage"),
    "outcomes": ("is_suspicious",),
    "providers": ("PROVIDERS",),
    "roles": ("Role",),
    "script": ("Call", "Entry", "NoEntryError", "Step", "load_script", "parse_script"),
    # A module must not bear the name of a thing in it: importing the module would hide the thing.
    "scripted": ("Played", "StepError", "perform", "play"),
    "supervision": ("supervise",),
}

__all__ = [
    "PROVIDERS",
    "AgentResult",
    "AgentRun",
    "Call",
    "Entry",
    "Invocation",
    "NoEntryError",
    "Outcome",
    "OutputError",
    "Played",
    "Provider",
    "Role",
    "Step",
    "StepError",
    "Usage",
    "agent_environment",
    "is_suspicious",
    "load_script",
    "parse_output",
    "parse_script",
    "perform",
    "play",
    "prepare",
    "schema",
    "supervise",
]


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
