"""The roles in which an agent runs (AGT-002)."""

import enum


class Role(enum.StrEnum):
    """What an agent is asked to be."""

    PLANNER = "planner"
    WORKER = "worker"
    FIXER = "fixer"
    RESOLVER = "resolver"
    REVIEWER = "reviewer"
    SYNTHESIZER = "synthesizer"
    TRIAGE = "triage"
