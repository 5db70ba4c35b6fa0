"""``.herd/config.yml`` as typed data (BAT-060 … BAT-096). The caller reads files and YAML; this checks and types."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from droveway.core.errors import InputError

ROLES = ("planner", "worker", "fixer", "reviewer", "synthesizer", "triage", "resolver")
# BAT-068: where a role has no own setting, it uses the next one's.
ROLE_FALLBACK: Mapping[str, str] = {
    "fixer": "worker",
    "resolver": "worker",
    "reviewer": "worker",
    "synthesizer": "reviewer",
}


class Platform(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the repository lives (BAT-063); empty owner and repo mean: from the remote."""

    provider: str = "github"
    owner: str = ""
    repo: str = ""
    url: str = "https://api.github.com"


class AgentChoice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A role's sparse overrides (BAT-068)."""

    provider: str | None = None
    binary: str | None = None
    model: str | None = None
    max_turns: int | None = None


class Agent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which agent runs (BAT-064 … BAT-068)."""

    provider: str = "claude"
    binary: str = ""
    model: str = ""
    max_turns: int = 0
    codex_reasoning_effort: str = "medium"
    codex_sandbox: str = ""
    exec: str = "local"
    exec_image: str = ""
    planner: AgentChoice = AgentChoice()
    worker: AgentChoice = AgentChoice()
    fixer: AgentChoice = AgentChoice()
    reviewer: AgentChoice = AgentChoice()
    synthesizer: AgentChoice = AgentChoice()
    triage: AgentChoice = AgentChoice()
    resolver: AgentChoice = AgentChoice()

    def of(self, role: str) -> AgentChoice:
        """Give a role's full choice: its own, then its fallback's, then the general one."""
        chain: list[AgentChoice] = []
        name: str | None = role
        while name:
            chain.append(getattr(self, name))
            name = ROLE_FALLBACK.get(name)
        chain.append(AgentChoice(self.provider, self.binary, self.model, self.max_turns))

        def first(field: str) -> Any:
            return next(value for choice in chain if (value := getattr(choice, field)) is not None)

        return AgentChoice(first("provider"), first("binary"), first("model"), first("max_turns"))


class Workers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many workers, for how long (BAT-069 … BAT-074)."""

    backend: str = "engine"
    max_concurrent: int = 3
    timeout_minutes: int = 30
    progress_interval_seconds: int = 30
    runner_label: str = "herd-worker"
    extra_env: tuple[str, ...] = ()
    queue_timeout_minutes: int = 120


class ReviewDiff(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bounds of a review's input (BAT-085, BAT-086)."""

    max_chunk_bytes: int = 180_000
    max_file_bytes: int = 40_000
    max_files_per_chunk: int = 80
    max_chunks: int = 8
    generated_paths: tuple[str, ...] = ()
    parallel: int = 2


class NonConvergence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When a review counts as not converging (BAT-087)."""

    enabled: bool = True
    window: int = 5
    min_completed_cycles: int = 3
    synthesis_enabled: bool = True
    synthesis_min_confidence: float = 0.75


class Integrator(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Consolidation, conflicts, CI, review, landing (BAT-075 … BAT-087)."""

    strategy: str = "squash"
    on_conflict: str = "dispatch-resolver"
    max_conflict_resolution_attempts: int = 2
    require_ci: bool = True
    ci_workflows: tuple[str, ...] = ()
    ci_start_grace_seconds: int = 120
    ci_max_fix_cycles: int = 0
    review: bool = True
    review_max_fix_cycles: int = 0
    review_strictness: str = "standard"
    review_fix_severity: str = "low"
    review_diff: ReviewDiff = ReviewDiff()
    review_non_convergence: NonConvergence = NonConvergence()


class Monitor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The patrol (BAT-088 … BAT-092)."""

    patrol_interval_minutes: int = 15
    stale_threshold_minutes: int = 30
    max_pr_age_hours: int = 24
    auto_redispatch: bool = True
    max_redispatch_attempts: int = 3
    notify_on_failure: bool = True
    notify_users: tuple[str, ...] = ()


class PullRequests(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The batch PR (BAT-093, BAT-094)."""

    auto_merge: bool = False
    co_author_email: str = "droveway@noreply.invalid"


class Command(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One declared validation or CI command (BAT-141). ``run``: an argument list, or a string split by POSIX rules."""

    run: str | tuple[str, ...]
    name: str = ""
    dir: str = "."
    kind: str = "other"
    timeout_seconds: int | None = None
    env: dict[str, str] = {}
    optional: bool = False


class Validation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a worker's change must pass (BAT-095). ``env`` are names that pass from our environment."""

    commands: tuple[Command, ...] = ()
    auto_detect: bool = True
    required: bool = False
    timeout_seconds: int = 900
    env: tuple[str, ...] = ()


class Trust(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whose commands count besides people's (BAT-096)."""

    bots: tuple[str, ...] = ()


class Ci(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the embedded forge runs at a push (BAT-237)."""

    commands: tuple[Command, ...] = ()


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All of ``.herd/config.yml``."""

    version: int = 1
    platform: Platform = Platform()
    agent: Agent = Agent()
    workers: Workers = Workers()
    integrator: Integrator = Integrator()
    monitor: Monitor = Monitor()
    pull_requests: PullRequests = PullRequests()
    validation: Validation = Validation()
    trust: Trust = Trust()
    ci: Ci = Ci()


ENVIRONMENT: Mapping[str, str] = {
    "HERD_MAX_WORKERS": "workers.max_concurrent",
    "HERD_RUNNER_LABEL": "workers.runner_label",
    "HERD_MODEL": "agent.model",
    "HERD_TIMEOUT": "workers.timeout_minutes",
    "HERD_REVIEW_STRICTNESS": "integrator.review_strictness",
    "HERD_EXEC": "agent.exec",
}

_POSITIVE = (
    "workers.max_concurrent",
    "workers.timeout_minutes",
    "workers.queue_timeout_minutes",
    "integrator.max_conflict_resolution_attempts",
    "integrator.review_diff.max_chunk_bytes",
    "integrator.review_diff.max_file_bytes",
    "integrator.review_diff.max_files_per_chunk",
    "integrator.review_diff.max_chunks",
    "integrator.review_non_convergence.window",
    "integrator.review_non_convergence.min_completed_cycles",
    "monitor.stale_threshold_minutes",
    "monitor.max_pr_age_hours",
    "monitor.max_redispatch_attempts",
    "validation.timeout_seconds",
)
_NOT_NEGATIVE = (
    "agent.max_turns",
    "workers.progress_interval_seconds",
    "integrator.ci_start_grace_seconds",
    "integrator.ci_max_fix_cycles",
    "integrator.review_max_fix_cycles",
)
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "platform.provider": ("github", "local"),
    "agent.codex_reasoning_effort": ("minimal", "low", "medium", "high"),
    "agent.codex_sandbox": ("", "read-only", "workspace-write", "danger-full-access"),
    "agent.exec": ("local", "docker"),
    "workers.backend": ("engine", "actions"),
    "integrator.strategy": ("squash", "rebase", "merge"),
    "integrator.on_conflict": ("dispatch-resolver", "notify"),
    "integrator.review_strictness": ("standard", "strict", "lenient"),
    "integrator.review_fix_severity": ("low", "medium", "high"),
}
_KINDS = ("setup", "build", "test", "vet", "lint", "format", "other")


def value_of(settings: Settings, key: str) -> Any:
    """Give the value at a dotted key; raise InputError with the nearest name where there is none."""
    value: Any = settings
    for part in key.split("."):
        if not isinstance(value, msgspec.Struct) or part not in value.__struct_fields__:
            raise InputError(f"unknown key {key!r}{_nearest(key, known_keys())}")
        value = getattr(value, part)
    return value


def known_keys() -> tuple[str, ...]:
    """Give every dotted key that has a value."""

    def walk(struct: type[msgspec.Struct], prefix: str) -> list[str]:
        keys: list[str] = []
        for field in msgspec.structs.fields(struct):
            name = f"{prefix}{field.encode_name}"
            if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
                keys += walk(field.type, f"{name}.")
            else:
                keys.append(name)
        return keys

    return tuple(walk(Settings, ""))


def parse_settings(raw: Any, environ: Mapping[str, str] | None = None, source: str = ".herd/config.yml") -> Settings:
    """Type and check a decoded configuration; the environment's values win over it (BAT-061).

    Raises InputError with every problem that was found, a line each.
    """
    if raw is None:
        raw = {}
    if not isinstance(raw, dict):
        raise InputError(f"{source}: the top level must be a mapping of keys, not {type(raw).__name__}")
    raw = _with_worker_alias(raw)
    problems = _unknown(raw, Settings, "", source)
    if problems:
        raise InputError(*problems)
    for name, key in ENVIRONMENT.items():
        if environ and environ.get(name):
            raw = _with(raw, key, environ[name])
    try:
        settings = msgspec.convert(raw, Settings, strict=not environ)
    except msgspec.ValidationError as error:
        raise InputError(f"{source}: {str(error).replace('`$.', '`')}") from None
    problems = _check(settings, source)
    if problems:
        raise InputError(*problems)
    return settings


def _with_worker_alias(raw: dict[str, Any]) -> dict[str, Any]:
    agent = raw.get("agent")
    if isinstance(agent, dict) and "workers" in agent and "worker" not in agent:
        renamed = {("worker" if name == "workers" else name): value for name, value in agent.items()}
        return {**raw, "agent": renamed}
    return raw


def _with(raw: dict[str, Any], key: str, value: str) -> dict[str, Any]:
    head, _, rest = key.partition(".")
    if not rest:
        return {**raw, head: value}
    inner = raw.get(head)
    return {**raw, head: _with(inner if isinstance(inner, dict) else {}, rest, value)}


def _nearest(key: str, names: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(key, names, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def _unknown(raw: dict[str, Any], struct: type[msgspec.Struct], prefix: str, source: str) -> list[str]:
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(struct)}
    problems: list[str] = []
    for name, value in raw.items():
        key = f"{prefix}{name}"
        if name not in fields:
            names = tuple(f"{prefix}{known}" for known in fields)
            problems.append(f"{source}: unknown key {key!r}{_nearest(key, names)}")
            continue
        inner = fields[name]
        if isinstance(value, dict) and isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            problems += _unknown(value, inner, f"{key}.", source)
    return problems


def _check(settings: Settings, source: str) -> list[str]:
    problems: list[str] = []

    def wrong(key: str, want: str) -> None:
        problems.append(f"{source}: {key} is {value_of(settings, key)!r}; it must be {want}")

    if settings.version != 1:
        wrong("version", "1")
    for key in _POSITIVE:
        if value_of(settings, key) <= 0:
            wrong(key, "greater than 0")
    for key in _NOT_NEGATIVE:
        if value_of(settings, key) < 0:
            wrong(key, "0 or greater")
    for key, choices in _CHOICES.items():
        if value_of(settings, key) not in choices:
            wrong(key, "one of " + ", ".join(repr(choice) for choice in choices))
    if settings.monitor.patrol_interval_minutes < 5:
        wrong("monitor.patrol_interval_minutes", "at least 5")
    diff = settings.integrator.review_diff
    if diff.max_chunks > 20:
        wrong("integrator.review_diff.max_chunks", "at most 20")
    if diff.max_file_bytes > diff.max_chunk_bytes:
        wrong("integrator.review_diff.max_file_bytes", "at most max_chunk_bytes")
    if not 1 <= diff.parallel <= 8:
        wrong("integrator.review_diff.parallel", "1 to 8")
    if not 0 <= settings.integrator.review_non_convergence.synthesis_min_confidence <= 1:
        wrong("integrator.review_non_convergence.synthesis_min_confidence", "between 0 and 1")
    if any(not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) for name in settings.workers.extra_env):
        wrong("workers.extra_env", "a list of environment names (letters, digits, underscore)")
    workflows = settings.integrator.ci_workflows
    if any(not name.strip() for name in workflows) or len(set(workflows)) != len(workflows):
        wrong("integrator.ci_workflows", "exact names, no blanks, no doubles")
    for key, commands in (("validation.commands", settings.validation.commands), ("ci.commands", settings.ci.commands)):
        for index, command in enumerate(commands):
            if command.kind not in _KINDS:
                problems.append(
                    f"{source}: {key}[{index}].kind is {command.kind!r}; it must be one of {', '.join(_KINDS)}"
                )
            if not command.run:
                problems.append(f"{source}: {key}[{index}].run is empty; write the command to run")
    return problems
