"""The one place that starts agents: provider, walls, supervision, retries, contracts, record (AGT-004 … AGT-009)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import structlog

from droveway.agents import (
    PROVIDERS,
    AgentResult,
    AgentRun,
    Outcome,
    OutputError,
    Provider,
    Usage,
    parse_output,
    prepare,
    supervise,
)
from droveway.core.errors import HerdError, InputError
from droveway.core.settings import AgentChoice, Settings
from droveway.core.text import cut_bytes
from droveway.sessions.fleet import Fleet
from droveway.sessions.model import AgentRequest, TurnResult
from droveway.sessions.walls import Walls, copy_logins, passed

if TYPE_CHECKING:
    from droveway.engine import JobContext

SUSPICIOUS_PAUSE = 5.0  # BAT-174, REV-033
_SHOWN_ANSWER = 4_000
_RESERVE = timedelta(seconds=15)  # the job's own deadline comes after the agent's tree is gone


class _Session:
    """One session of the store, with the run that its turns share."""

    def __init__(self, fleet: Fleet, request: AgentRequest, context: JobContext, provider: Provider, id_: str) -> None:
        self.fleet = fleet
        self.request = request
        self.context = context
        self.provider = provider
        self.id = id_
        self.results: list[AgentResult] = []

    def left(self) -> float:
        """Give the seconds until the deadline, the job's own one included."""
        now = self.fleet.clock.now()
        moment = self.request.deadline
        assert isinstance(moment, datetime)
        return (min(moment, self.context.deadline - _RESERVE) - now).total_seconds()


async def run_agent(fleet: Fleet, request: AgentRequest, context: JobContext) -> TurnResult:
    """Run an agent to its end and give what it said. Nobody else starts an agent.

    Suspicious output is retried once after 5 s (BAT-174), and so is an answer that does not fit its contract, with the
    error in the prompt (AGT-006): then OutputError is raised. Any other end is an outcome of the result, not an error.
    Raises InputError for a provider that is not known, HerdError where it can't be started.
    """
    settings = await fleet.settings(request.repo)
    choice = settings.agent.of(str(request.role))
    provider = PROVIDERS.get(choice.provider or "")
    if provider is None:
        raise InputError(f"unknown agent {choice.provider!r}; known are {', '.join(sorted(PROVIDERS))}")
    if settings.agent.exec != "local":
        raise HerdError(f"agent.exec is {settings.agent.exec!r}; only 'local' exists so far")
    if not isinstance(request.deadline, datetime):
        moment = fleet.clock.now() + timedelta(seconds=request.deadline)
        request = msgspec.structs.replace(request, deadline=moment)
    task = await fleet.store.task(
        str(request.repo),
        kind=str(request.role),
        subject=request.subject,
        title=request.title,
        issue=request.issue,
        batch=request.batch,
        pr=request.pull,
    )
    model = request.model or choice.model or ""
    id_ = await fleet.store.open_session(
        task, role=str(request.role), provider=provider.name, model=model, identity=fleet.forge.login
    )
    session = _Session(fleet, request, context, provider, id_)
    result = await _twice(session, settings, choice, request.prompt)
    output = None
    if request.output_type is not None and result.outcome is Outcome.OK:
        result, output = await _contract(session, settings, choice, result)
    return _answer(session.results, result, output)


async def _contract(
    session: _Session, settings: Settings, choice: AgentChoice, result: AgentResult
) -> tuple[AgentResult, Any]:
    """Read the answer by its contract; ask once more where it does not fit."""
    request = session.request
    try:
        return result, parse_output(result.text, request.output_type, exactly_one=request.exactly_one)
    except OutputError as error:
        if session.context.cancelled.is_set() or session.left() <= 0:
            raise
        structlog.get_logger().info("an answer does not fit its contract", job=request.job, error=str(error))
        shown = cut_bytes(result.text, _SHOWN_ANSWER, "…[cut]\n", tail=True)
        prompt = (
            f"{request.prompt}\n\n## Your previous answer was refused\n\n{error}\n\nIt ended with:\n\n{shown}\n\n"
            "Answer again. The whole answer must fit the contract above."
        )
    await session.fleet.clock.sleep(SUSPICIOUS_PAUSE)
    result = await _twice(session, settings, choice, prompt)
    if result.outcome is not Outcome.OK:
        return result, None
    return result, parse_output(result.text, request.output_type, exactly_one=request.exactly_one)


async def _twice(session: _Session, settings: Settings, choice: AgentChoice, prompt: str) -> AgentResult:
    """Run; where the output is suspicious, once more after a pause (AGT-005)."""
    result = await _once(session, settings, choice, prompt)
    if result.outcome is not Outcome.SUSPICIOUS or session.context.cancelled.is_set():
        return result
    await session.fleet.clock.sleep(SUSPICIOUS_PAUSE)
    if session.context.cancelled.is_set() or session.left() <= 0:
        return result
    return await _once(session, settings, choice, prompt)


async def _once(session: _Session, settings: Settings, choice: AgentChoice, prompt: str) -> AgentResult:
    """Run one turn: start it behind its walls, supervise it, read it, and record what it used."""
    fleet, request, provider = session.fleet, session.request, session.provider
    walls = walls_of(request, settings, provider.name, fleet)
    run = AgentRun(
        provider=provider.name,
        role=request.role,
        prompt=prompt,
        work_dir=request.work_dir,
        home=walls.home,
        model=request.model or choice.model or "",
        system=request.system,
        env=passed(fleet, provider.env_names),
        max_turns=choice.max_turns or 0,
        binary=choice.binary or "",
        script=fleet.script,
        issue_title=request.title,
        attempt=request.attempt,
        conversation=request.conversation,
        read_only=request.read_only,
    )
    walls.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    copy_logins(walls.home, provider.login_files)
    invocation = prepare(provider, run, os.environ, identity=request.identity)
    env = {**invocation.env, **passed(fleet, walls.env)}
    argv, env = fleet.sandbox.wrap(invocation.argv, cwd=request.work_dir, env=env, mounts=walls.mounts())
    digest = hashlib.sha256(prompt.encode("utf-8", "replace")).hexdigest()
    turn = await fleet.store.start_turn(
        session.id,
        job=request.job,
        attempt=request.attempt,
        prompt_digest=digest,
        transcript=str(request.transcript),
    )
    result: AgentResult | None = None
    try:
        completed = await supervise(
            fleet.runner,
            argv,
            env,
            stdin=invocation.stdin,
            cwd=request.work_dir,
            deadline=max(session.left(), 1.0),
            idle=request.idle,
            transcript=request.transcript,
            cancelled=session.context.cancelled,
            redact=fleet.redactor,
        )
        result = provider.read(run, completed, fleet.clock.now())
    except OSError as error:
        raise HerdError(f"the agent {provider.name} can't be started: {error.strerror or error}") from error
    finally:
        await _record(session, turn, result)
    result = msgspec.structs.replace(result, text=fleet.redactor(result.text), error=fleet.redactor(result.error))
    session.results.append(result)
    return result


def walls_of(request: AgentRequest, settings: Settings, provider: str, fleet: Fleet) -> Walls:
    """Give the walls of a request; a read-only one may write into its private home alone."""
    writable = request.writable
    if writable is None:
        writable = () if request.read_only else (request.work_dir,)
    elif request.read_only:
        writable = ()
    readable = [*request.readable]
    if not any(request.work_dir == path or path in request.work_dir.parents for path in writable):
        readable.append(request.work_dir)
    if provider == "scripted" and fleet.script is not None:
        readable.append(fleet.script)
    return Walls(
        home=request.place / "home",
        writable=tuple(writable),
        readable=tuple(readable),
        env=settings.workers.extra_env,
        identity=request.identity,
    )


async def _record(session: _Session, turn: str, result: AgentResult | None) -> None:
    """Keep what the turn used, also where it broke (AGT-009)."""
    if result is None:
        await session.fleet.store.end_turn(turn, outcome=Outcome.FAILED.value)
        return
    usage = result.usage
    await session.fleet.store.end_turn(
        turn,
        outcome=result.outcome.value,
        text=session.fleet.redactor(result.text),
        tokens_in=usage.tokens_in,
        tokens_out=usage.tokens_out,
        tokens_cached=usage.tokens_cached,
        cost_usd=usage.cost_usd,
        agent_turns=usage.turns,
        seconds=result.seconds,
        conversation=result.conversation or "",
    )


def _answer(results: Sequence[AgentResult], last: AgentResult, output: Any) -> TurnResult:
    def total(name: str) -> Any:
        known = [value for result in results if (value := getattr(result.usage, name)) is not None]
        return sum(known) if known else None

    return TurnResult(
        outcome=last.outcome,
        text=last.text,
        output=output,
        usage=Usage(
            tokens_in=total("tokens_in"),
            tokens_out=total("tokens_out"),
            tokens_cached=total("tokens_cached"),
            cost_usd=total("cost_usd"),
            turns=total("turns"),
        ),
        seconds=sum(result.seconds for result in results),
        code=last.code,
        error=last.error,
        conversation=last.conversation,
        reset_at=last.reset_at,
        turns=len(results),
    )
