"""The providers, one file each, one row here (AGT-001). ``kimi``, ``grok`` and ``acp`` do not exist yet."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from droveway.agents.model import Provider
from droveway.agents.providers.claude import Claude
from droveway.agents.providers.codex import Codex
from droveway.agents.providers.command import Command
from droveway.agents.providers.copilot import Copilot
from droveway.agents.providers.gemini import Gemini
from droveway.agents.providers.opencode import Opencode
from droveway.agents.providers.qwen import Qwen
from droveway.agents.providers.scripted import Scripted

_ALL: tuple[Provider, ...] = (
    Claude(),
    Codex(),
    Opencode(),
    Qwen(),
    Gemini(),
    Copilot(),
    Command(),
    Scripted(),
)
PROVIDERS: Mapping[str, Provider] = MappingProxyType({provider.name: provider for provider in _ALL})
