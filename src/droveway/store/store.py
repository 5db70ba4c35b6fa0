"""The store: what agents did, what was decided and why, and small things that need transactions (ENG-001)."""

from __future__ import annotations

import asyncio
import hashlib
import json
import zlib
from datetime import datetime, timedelta
from typing import Any

import msgspec
import sqlalchemy as sa

from droveway.core.actuator import AuditRecord
from droveway.core.clock import Clock
from droveway.core.decisions import Blocker
from droveway.core.ids import Ids
from droveway.store.base import clean, moment
from droveway.store.database import make_engine
from droveway.store.migrate import upgrade
from droveway.store.schema import DECISIONS, ETAGS, FACTS, SETTINGS
from droveway.store.work import Work

DECISIONS_KEPT = timedelta(days=30)
FACTS_KEPT = timedelta(days=7)
FACTS_BYTES = 500 * 1024 * 1024
ETAGS_KEPT = timedelta(days=30)


class Store(Work):
    """One database, shared with the engine; all methods may be called from any task of the main loop."""

    @classmethod
    async def open(cls, url: str | sa.Engine, *, clock: Clock, ids: Ids) -> Store:
        """Open ``sqlite:///PATH`` or ``postgresql://…`` and bring its tables up to date.

        Raises HerdError if a newer Droveway made them. An engine that is passed in is not disposed by ``close``.
        """
        database = make_engine(url) if isinstance(url, str) else url
        with clock.hold():
            try:
                await asyncio.to_thread(upgrade, database)
            except BaseException:
                database.dispose()
                raise
        store = cls(database, clock=clock, ids=ids)
        store._owned = isinstance(url, str)
        return store

    _owned = False

    async def close(self) -> None:
        """Let go of the database."""
        if self._owned:
            with self._clock.hold():
                await asyncio.to_thread(self.database.dispose)

    # --- decisions (ENG-007) -----------------------------------------------------------------------------------------

    async def record(self, record: AuditRecord) -> None:
        """Keep a decision; one without actions and with the blockers of the last one is no news, and is not kept."""
        blockers = _json(record.blockers)

        def work(db: sa.Connection) -> None:
            if not record.actions:
                last = db.execute(
                    sa.select(DECISIONS.c.blockers, DECISIONS.c.actions)
                    .where(
                        (DECISIONS.c.repo == record.repo)
                        & (DECISIONS.c.subject == record.subject)
                        & (DECISIONS.c.rule == record.rule)
                    )
                    .order_by(DECISIONS.c.at.desc(), DECISIONS.c.id.desc())
                    .limit(1)
                ).first()
                if last is None and not record.blockers:
                    return
                if last is not None and last.blockers == blockers and (not record.blockers or last.actions == "[]"):
                    return
            facts = _json(record.facts)
            row = self._insert(
                DECISIONS,
                id=record.id,
                at=record.at.timestamp(),
                loop=record.loop,
                rule=record.rule,
                repo=record.repo,
                subject=record.subject,
                head=record.head,
                facts_digest=hashlib.sha256(facts.encode()).hexdigest(),
                facts=facts,
                blockers=blockers,
                actions=_json(record.actions),
                outcomes=_json(record.outcomes),
                requests=record.requests,
            )
            db.execute(row.on_conflict_do_nothing())

        await self._write(work)

    async def decisions(
        self,
        *,
        repo: str | None = None,
        subject: str | None = None,
        rule: str | None = None,
        since: datetime | None = None,
        limit: int = 200,
    ) -> list[AuditRecord]:
        """Give recorded decisions, newest first."""
        query = sa.select(DECISIONS).order_by(DECISIONS.c.at.desc(), DECISIONS.c.id.desc()).limit(limit)
        for column, value in ((DECISIONS.c.repo, repo), (DECISIONS.c.subject, subject), (DECISIONS.c.rule, rule)):
            if value is not None:
                query = query.where(column == value)
        if since is not None:
            query = query.where(DECISIONS.c.at >= since.timestamp())
        return [_record(row) for row in await self._read(query)]

    async def keep_facts(self, facts: Any) -> str:
        """Keep a whole fact set (anything that msgspec encodes) once, compressed; give its digest."""
        plain = msgspec.json.encode(facts, order="deterministic")
        digest = hashlib.sha256(plain).hexdigest()
        body = zlib.compress(plain)
        values = {"at": self._seconds(), "size": len(body), "body": body}
        await self._write(lambda db: db.execute(self._upsert(FACTS, "digest", digest, **values)))
        return digest

    async def facts(self, digest: str) -> Any:
        """Give a kept fact set as plain JSON, or None if it is unknown or was dropped."""
        rows = await self._read(sa.select(FACTS.c.body).where(FACTS.c.digest == digest))
        return msgspec.json.decode(zlib.decompress(rows[0].body)) if rows else None

    async def prune(self, now: datetime) -> None:
        """Drop what is past its time: decisions after 30 days, facts after 7 days or beyond 500 MB, stale ETags."""

        def work(db: sa.Connection) -> None:
            for table, kept in ((DECISIONS, DECISIONS_KEPT), (FACTS, FACTS_KEPT), (ETAGS, ETAGS_KEPT)):
                db.execute(sa.delete(table).where(table.c.at < (now - kept).timestamp()))
            room = FACTS_BYTES
            too_much = []
            for digest, size in db.execute(sa.select(FACTS.c.digest, FACTS.c.size).order_by(FACTS.c.at.desc())):
                room -= size
                if room < 0:
                    too_much.append(digest)
            for start in range(0, len(too_much), 500):
                db.execute(sa.delete(FACTS).where(FACTS.c.digest.in_(too_much[start : start + 500])))

        await self._write(work)

    # --- answers of the forge ----------------------------------------------------------------------------------------

    async def etag(self, key: str) -> tuple[str, bytes] | None:
        """Give the ETag and the body that were last put under ``key`` (an address with all that shapes its answer)."""
        rows = await self._read(sa.select(ETAGS.c.etag, ETAGS.c.body).where(ETAGS.c.key == _short(key)))
        return (rows[0].etag, zlib.decompress(rows[0].body)) if rows else None

    async def put_etag(self, key: str, etag: str, body: bytes) -> None:
        """Keep an answer with its ETag."""
        values = {"etag": etag, "at": self._seconds(), "body": zlib.compress(body, 1)}
        await self._write(lambda db: db.execute(self._upsert(ETAGS, "key", _short(key), **values)))

    # --- settings ----------------------------------------------------------------------------------------------------

    async def put(self, key: str, value: Any) -> None:
        """Keep a JSON value under a key; None drops the key."""
        if value is None:
            await self._write(lambda db: db.execute(sa.delete(SETTINGS).where(SETTINGS.c.key == key)))
        else:
            await self._write(lambda db: db.execute(self._upsert(SETTINGS, "key", key, value=_json(value))))

    async def get(self, key: str) -> Any:
        """Give the value under a key, or None."""
        rows = await self._read(sa.select(SETTINGS.c.value).where(SETTINGS.c.key == key))
        return msgspec.json.decode(rows[0].value) if rows else None


def _json(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:  # half a character, which JSON from outside may contain
        return clean(json.dumps(msgspec.to_builtins(value), ensure_ascii=False), 10_000_000)


def _short(key: str) -> str:
    """Give a key that fits: a long one by its digest."""
    return key if len(key) <= 500 else hashlib.sha256(key.encode()).hexdigest()


def _record(row: sa.Row[Any]) -> AuditRecord:
    return AuditRecord(
        id=row.id,
        at=moment(row.at),
        loop=row.loop,
        rule=row.rule,
        repo=row.repo,
        subject=row.subject,
        head=row.head,
        facts=msgspec.json.decode(row.facts, type=tuple[str, ...]),
        blockers=msgspec.json.decode(row.blockers, type=tuple[Blocker, ...]),
        actions=msgspec.json.decode(row.actions, type=list[dict[str, Any]]),
        outcomes=msgspec.json.decode(row.outcomes, type=list[dict[str, Any]]),
        requests=row.requests,
    )
