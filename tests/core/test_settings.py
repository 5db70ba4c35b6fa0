"""The configuration: every key has its default, its bounds and its one clear complaint."""

from __future__ import annotations

from typing import Any

import pytest

from droveway.core.errors import InputError
from droveway.core.settings import ENVIRONMENT, ROLES, Settings, known_keys, parse_settings, value_of

DEFAULTS: dict[str, Any] = {
    "version": 1,
    "platform.provider": "github",
    "platform.url": "https://api.github.com",
    "agent.provider": "claude",
    "agent.max_turns": 0,
    "agent.codex_reasoning_effort": "medium",
    "agent.codex_sandbox": "",
    "agent.exec": "local",
    "workers.backend": "engine",
    "workers.max_concurrent": 3,
    "workers.timeout_minutes": 30,
    "workers.progress_interval_seconds": 30,
    "workers.runner_label": "herd-worker",
    "workers.extra_env": (),
    "workers.queue_timeout_minutes": 120,
    "integrator.strategy": "squash",
    "integrator.on_conflict": "dispatch-resolver",
    "integrator.max_conflict_resolution_attempts": 2,
    "integrator.require_ci": True,
    "integrator.ci_workflows": (),
    "integrator.ci_start_grace_seconds": 120,
    "integrator.ci_max_fix_cycles": 0,
    "integrator.review": True,
    "integrator.review_max_fix_cycles": 0,
    "integrator.review_strictness": "standard",
    "integrator.review_fix_severity": "low",
    "integrator.review_diff.max_chunk_bytes": 180000,
    "integrator.review_diff.max_file_bytes": 40000,
    "integrator.review_diff.max_files_per_chunk": 80,
    "integrator.review_diff.max_chunks": 8,
    "integrator.review_diff.generated_paths": (),
    "integrator.review_diff.parallel": 2,
    "integrator.review_non_convergence.enabled": True,
    "integrator.review_non_convergence.window": 5,
    "integrator.review_non_convergence.min_completed_cycles": 3,
    "integrator.review_non_convergence.synthesis_enabled": True,
    "integrator.review_non_convergence.synthesis_min_confidence": 0.75,
    "monitor.patrol_interval_minutes": 15,
    "monitor.stale_threshold_minutes": 30,
    "monitor.max_pr_age_hours": 24,
    "monitor.auto_redispatch": True,
    "monitor.max_redispatch_attempts": 3,
    "monitor.notify_on_failure": True,
    "monitor.notify_users": (),
    "pull_requests.auto_merge": False,
    "pull_requests.co_author_email": "droveway@noreply.invalid",
    "validation.commands": (),
    "validation.auto_detect": True,
    "validation.required": False,
    "validation.timeout_seconds": 900,
    "validation.env": (),
    "trust.bots": (),
    "ci.commands": (),
}


def nested(key: str, value: Any) -> dict[str, Any]:
    head, _, rest = key.partition(".")
    return {head: nested(rest, value) if rest else value}


@pytest.mark.req(*[f"BAT-{number:03}" for number in range(62, 97)], "BAT-237")
@pytest.mark.parametrize("key", DEFAULTS)
def test_every_key_has_its_default_and_can_be_set(key: str) -> None:
    assert value_of(Settings(), key) == DEFAULTS[key]
    given = list(DEFAULTS[key]) if isinstance(DEFAULTS[key], tuple) else DEFAULTS[key]
    assert value_of(parse_settings(nested(key, given)), key) == DEFAULTS[key]


@pytest.mark.req("BAT-060")
def test_the_table_holds_every_key() -> None:
    fields = ("provider", "binary", "model", "max_turns")
    roles = {f"agent.{role}.{field}" for role in ROLES for field in fields}
    texts = {"platform.owner", "platform.repo", "agent.binary", "agent.model", "agent.exec_image"}
    assert set(known_keys()) == set(DEFAULTS) | roles | texts


@pytest.mark.req("BAT-060", "BAT-078", "BAT-073", "BAT-085", "BAT-086", "BAT-087", "BAT-088", "BAT-141")
@pytest.mark.parametrize(
    ("key", "value", "word"),
    [
        ("version", 2, "must be 1"),
        ("workers.max_concurrent", 0, "greater than 0"),
        ("workers.progress_interval_seconds", -1, "0 or greater"),
        ("workers.extra_env", ["A B"], "environment names"),
        ("workers.backend", "cloud", "one of"),
        ("integrator.strategy", "octopus", "one of"),
        ("integrator.ci_workflows", ["x", "x"], "no doubles"),
        ("integrator.ci_workflows", [" "], "no blanks"),
        ("integrator.review_diff.max_chunks", 21, "at most 20"),
        ("integrator.review_diff.max_file_bytes", 200000, "at most max_chunk_bytes"),
        ("integrator.review_diff.parallel", 9, "1 to 8"),
        ("integrator.review_non_convergence.synthesis_min_confidence", 1.5, "between 0 and 1"),
        ("monitor.patrol_interval_minutes", 4, "at least 5"),
        ("validation.commands", [{"run": "make", "kind": "magic"}], "one of"),
        ("validation.commands", [{"run": ""}], "is empty"),
        ("workers.max_concurrent", "three", "workers.max_concurrent"),
        ("integrator.reviev", True, "did you mean 'integrator.review'"),
        ("validation.commands", "make", "validation.commands"),
    ],
)
def test_each_bad_value_gets_one_line_that_names_its_key(key: str, value: Any, word: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_settings(nested(key, value))
    assert word in str(caught.value)
    assert key.split(".", maxsplit=1)[0] in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.req("BAT-060")
def test_every_problem_is_told_at_once() -> None:
    with pytest.raises(InputError) as caught:
        parse_settings(
            {"workers": {"max_concurrent": 0}, "integrator": {"strategy": "x"}, "monitor": {"max_pr_age_hours": 0}}
        )
    assert len(caught.value.problems) == 3


@pytest.mark.req("BAT-061")
def test_the_environment_wins_over_the_file() -> None:
    values = {"HERD_MAX_WORKERS": "7", "HERD_MODEL": "m", "HERD_TIMEOUT": "9", "HERD_REVIEW_STRICTNESS": "strict"}
    settings = parse_settings(
        {"workers": {"max_concurrent": 2}}, {**values, "HERD_RUNNER_LABEL": "", "HERD_EXEC": "local"}
    )
    assert (settings.workers.max_concurrent, settings.agent.model, settings.workers.timeout_minutes) == (7, "m", 9)
    assert settings.integrator.review_strictness == "strict"
    assert settings.workers.runner_label == "herd-worker"
    assert set(ENVIRONMENT.values()) <= set(known_keys())


FALLBACKS = {
    "planner": "claude",
    "worker": "codex",
    "fixer": "codex",
    "resolver": "codex",
    "reviewer": "qwen",
    "synthesizer": "qwen",
}


@pytest.mark.req("BAT-068", "AGT-002")
@pytest.mark.parametrize(("role", "want"), list(FALLBACKS.items()))
def test_a_role_falls_back_to_the_role_it_is_like(role: str, want: str) -> None:
    settings = parse_settings(
        {"agent": {"workers": {"provider": "codex", "model": "m"}, "reviewer": {"provider": "qwen"}}}
    )
    assert settings.agent.of(role).provider == want


@pytest.mark.parametrize("raw", [[], "text", 3])
def test_what_is_no_mapping_is_refused(raw: Any) -> None:
    with pytest.raises(InputError, match="mapping"):
        parse_settings(raw)
