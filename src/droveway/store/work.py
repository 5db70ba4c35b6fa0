"""Tasks, sessions, turns and messages: one model for everything that an agent does (ENG-002, AGT-009)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from droveway.store.base import Base, as_info, clean
from droveway.store.records import MessageInfo, SessionInfo, TaskInfo, TurnInfo, UsageTotals
from droveway.store.schema import MESSAGES, SESSIONS, TASKS, TURNS

TEXT_LIMIT = 20_000  # characters of an agent's last words; the whole is in the transcript


class Work(Base):
    """The part of the store that knows what agents do."""

    async def task(
        self,
        repo: str,
        *,
        kind: str,
        subject: str,
        title: str,
        issue: int | None = None,
        batch: int | None = None,
        pr: int | None = None,
    ) -> str:
        """Give the id of the task of this kind on this subject, made if need be. Known links are kept up to date."""
        links = {name: value for name, value in (("issue", issue), ("batch", batch), ("pr", pr)) if value is not None}
        values: dict[str, Any] = {"title": clean(title, 1000), **links}

        def work(db: sa.Connection) -> str:
            same = (TASKS.c.repo == repo) & (TASKS.c.kind == kind) & (TASKS.c.subject == subject)
            new = self._insert(
                TASKS, id=self._ids.new(), repo=repo, kind=kind, subject=subject, created_at=self._seconds(), **values
            )
            db.execute(new.on_conflict_do_nothing())
            db.execute(sa.update(TASKS).where(same).values(values))
            return str(db.execute(sa.select(TASKS.c.id).where(same)).scalar_one())

        return await self._write(work)

    async def tasks(self, repo: str, *, batch: int | None = None, issue: int | None = None) -> list[TaskInfo]:
        """Give a repository's tasks, oldest first."""
        query = sa.select(TASKS).where(TASKS.c.repo == repo).order_by(TASKS.c.created_at, TASKS.c.id)
        if batch is not None:
            query = query.where(TASKS.c.batch == batch)
        if issue is not None:
            query = query.where(TASKS.c.issue == issue)
        return [as_info(TaskInfo, row) for row in await self._read(query)]

    async def open_session(self, task: str, *, role: str, provider: str, model: str, identity: str = "") -> str:
        """Begin a session of a task; ``identity`` is the forge login in whose name it is paid for."""
        session = self._ids.new()
        values = {"role": role, "provider": provider, "model": clean(model, 200), "identity": identity}
        await self._add(SESSIONS, id=session, task=task, conversation="", created_at=self._seconds(), **values)
        return session

    async def sessions(self, task: str) -> list[SessionInfo]:
        """Give a task's sessions, oldest first."""
        query = sa.select(SESSIONS).where(SESSIONS.c.task == task).order_by(SESSIONS.c.created_at, SESSIONS.c.id)
        return [as_info(SessionInfo, row) for row in await self._read(query)]

    async def start_turn(
        self, session: str, *, job: str, attempt: int, prompt_digest: str, transcript: str = ""
    ) -> str:
        """Note that an agent is about to run; ``transcript`` is the path of its transcript."""
        turn = self._ids.new()
        values: dict[str, Any] = {
            "job": job,
            "attempt": attempt,
            "prompt_digest": prompt_digest,
            "transcript": transcript,
        }
        values |= {"outcome": "", "text": "", "seconds": 0.0}
        await self._add(TURNS, id=turn, session=session, started_at=self._seconds(), **values)
        return turn

    async def end_turn(
        self,
        turn: str,
        *,
        outcome: str,
        text: str = "",
        tokens_in: int | None = None,
        tokens_out: int | None = None,
        tokens_cached: int | None = None,
        cost_usd: float | None = None,
        agent_turns: int | None = None,
        seconds: float = 0.0,
        conversation: str = "",
    ) -> None:
        """Note how a turn ended and what it used; None is unknown. ``conversation`` is kept with its session."""
        values = {
            "ended_at": self._seconds(),
            "outcome": outcome,
            "text": clean(text, TEXT_LIMIT),
            "tokens_in": tokens_in,
            "tokens_out": tokens_out,
            "tokens_cached": tokens_cached,
            "cost_usd": cost_usd,
            "agent_turns": agent_turns,
            "seconds": seconds,
        }

        def work(db: sa.Connection) -> None:
            db.execute(sa.update(TURNS).where(TURNS.c.id == turn).values(values))
            if conversation:
                session = sa.select(TURNS.c.session).where(TURNS.c.id == turn).scalar_subquery()
                db.execute(
                    sa.update(SESSIONS).where(SESSIONS.c.id == session).values(conversation=clean(conversation, 200))
                )

        await self._write(work)

    async def turns(
        self, *, session: str | None = None, task: str | None = None, job: str | None = None
    ) -> list[TurnInfo]:
        """Give turns, oldest first."""
        query = sa.select(TURNS).order_by(TURNS.c.started_at, TURNS.c.id)
        if session is not None:
            query = query.where(TURNS.c.session == session)
        if task is not None:
            query = query.join(SESSIONS, SESSIONS.c.id == TURNS.c.session).where(SESSIONS.c.task == task)
        if job is not None:
            query = query.where(TURNS.c.job == job)
        return [as_info(TurnInfo, row) for row in await self._read(query)]

    async def usage(
        self,
        *,
        repo: str | None = None,
        task: str | None = None,
        batch: int | None = None,
        issue: int | None = None,
        identity: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> UsageTotals:
        """Sum the usage of all turns that meet every given condition (AGT-009); a day is ``since`` and ``until``."""
        total = sa.func.coalesce
        query = (
            sa.select(
                sa.func.count(TURNS.c.id).label("turns"),
                total(sa.func.sum(TURNS.c.tokens_in), 0).label("tokens_in"),
                total(sa.func.sum(TURNS.c.tokens_out), 0).label("tokens_out"),
                total(sa.func.sum(TURNS.c.tokens_cached), 0).label("tokens_cached"),
                total(sa.func.sum(TURNS.c.cost_usd), 0.0).label("cost_usd"),
                total(sa.func.sum(TURNS.c.seconds), 0.0).label("seconds"),
                (sa.func.count(TURNS.c.id) - sa.func.count(TURNS.c.cost_usd)).label("uncosted"),
            )
            .join(SESSIONS, SESSIONS.c.id == TURNS.c.session)
            .join(TASKS, TASKS.c.id == SESSIONS.c.task)
            .where(TURNS.c.ended_at.is_not(None))
        )
        wanted: tuple[tuple[sa.Column[Any], Any], ...] = (
            (TASKS.c.repo, repo),
            (TASKS.c.id, task),
            (TASKS.c.batch, batch),
            (TASKS.c.issue, issue),
            (SESSIONS.c.identity, identity),
        )
        for column, value in wanted:
            if value is not None:
                query = query.where(column == value)
        if since is not None:
            query = query.where(TURNS.c.started_at >= since.timestamp())
        if until is not None:
            query = query.where(TURNS.c.started_at < until.timestamp())
        (row,) = await self._read(query)
        return UsageTotals(
            turns=int(row.turns),
            tokens_in=int(row.tokens_in),
            tokens_out=int(row.tokens_out),
            tokens_cached=int(row.tokens_cached),
            cost_usd=float(row.cost_usd),
            seconds=float(row.seconds),
            uncosted=int(row.uncosted),
        )

    async def add_message(self, session: str, *, author: str, body: str) -> str:
        """Queue a message for a session's next turn."""
        message = self._ids.new()
        await self._add(MESSAGES, id=message, session=session, at=self._seconds(), author=author, body=clean(body))
        return message

    async def answer_messages(self, session: str, turn: str) -> list[MessageInfo]:
        """Give all waiting messages of a session to one turn, oldest first; asked again, the same ones."""

        def work(db: sa.Connection) -> list[sa.Row[Any]]:
            waiting = (MESSAGES.c.session == session) & MESSAGES.c.turn.is_(None)
            db.execute(sa.update(MESSAGES).where(waiting).values(turn=turn))
            taken = (MESSAGES.c.session == session) & (MESSAGES.c.turn == turn)
            return list(db.execute(sa.select(MESSAGES).where(taken).order_by(MESSAGES.c.at, MESSAGES.c.id)))

        return [as_info(MessageInfo, row) for row in await self._write(work)]

    async def messages(self, session: str) -> list[MessageInfo]:
        """Give a session's messages, oldest first."""
        query = sa.select(MESSAGES).where(MESSAGES.c.session == session).order_by(MESSAGES.c.at, MESSAGES.c.id)
        return [as_info(MessageInfo, row) for row in await self._read(query)]
