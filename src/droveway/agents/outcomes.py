"""Says how a run ended, from how its process ended and what it said (AGT-004, AGT-005, case P04)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import msgspec

from droveway.agents.model import AgentResult, Outcome, Usage
from droveway.core.runner import Completed, End
from droveway.core.text import cut_chars

_ENDS = {
    End.TIMEOUT: (Outcome.TIMED_OUT, "the deadline passed"),
    End.IDLE: (Outcome.IDLE, "it was silent for too long"),
    End.OUTPUT: (Outcome.LIMIT, "it wrote more output than the limit"),
    End.STOPPED: (Outcome.KILLED, "it was cancelled"),
}
_LOGIN = re.compile(
    r"authentication[_ ](?:error|failed)|invalid (?:x-)?api[ -]?key|incorrect api key|please run /login|not logged in"
    r"|(?:token|session) (?:has )?expired|unauthori[sz]ed|no api key"
    r"|api key (?:is )?(?:not|missing)|\b401\b|auth method",
    re.IGNORECASE,
)
_QUOTA = re.compile(
    r"rate[_ -]?limit|usage limit|quota|\b429\b|too many requests|hit your (?:\w+ )?limit|limit reached"
    r"|insufficient[_ ](?:quota|credits?|balance)|credit balance|resource[_ ]exhausted",
    re.IGNORECASE,
)
_TURNS = re.compile(r"max(?:imum)?[_ -]?(?:number of )?(?:session )?turns|error_max_turns|turn limit", re.IGNORECASE)
_INPUT = re.compile(
    r"terminal prompts disabled|could not read (?:Username|Password|Passphrase)|Host key verification failed"
    r"|Permission denied \(publickey|Aborting commit due to empty commit message|problem with the editor"
    r"|gpg failed to sign|incorrect passphrase|No such device or address|not a tty"
    r"|read_passphrase|unable to read askpass",
    re.IGNORECASE,
)
_EPOCH = re.compile(r"\|(\d{10})\b")
_RESET_AT = re.compile(
    r"(?:resets?|again|available|until|retry)[^\n]{0,30}?"
    r"\b(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?)",
    re.IGNORECASE,
)
_SPAN = re.compile(r"\b(\d+(?:\.\d+)?)\s*(days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s|ms)\b", re.IGNORECASE)
_AFTER = re.compile(r"(?:try again|retry|resets?|available)[^.\n]{0,20}?\b(?:in|after)\b:?\s*", re.IGNORECASE)
_UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}


class Said(msgspec.Struct, frozen=True):
    """What a provider read in a run's output. ``failed`` is the provider's own verdict, whatever the exit code says."""

    text: str = ""
    usage: Usage = Usage()
    conversation: str | None = None
    failed: bool = False
    error: str = ""
    limit: bool = False


def is_suspicious(text: str) -> bool:
    """Whether a successful run's text is too poor: empty, ``Execution error``, or one short line (BAT-174)."""
    stripped = text.strip()
    return stripped in ("", "Execution error") or ("\n" not in stripped and len(stripped) < 20)


def reset_time(text: str, now: datetime | None) -> datetime | None:
    """Give when a quota is free again, as far as ``text`` says so; spans need ``now``."""
    if epoch := _EPOCH.search(text):
        return datetime.fromtimestamp(int(epoch.group(1)), UTC)
    after = _AFTER.search(text)
    if after is None:
        stamp = _RESET_AT.search(text)
        moment = datetime.fromisoformat(stamp.group(1)) if stamp else None
        return moment.replace(tzinfo=UTC) if moment and not moment.tzinfo else moment
    if now is None:
        return None
    seconds, at = 0.0, after.end()
    while span := _SPAN.match(text, at):
        unit = span.group(2).lower()
        seconds += float(span.group(1)) * (0.001 if unit == "ms" else _UNITS[unit[0]])
        rest = re.compile(r"[\s,]*(?:and\s+)?").match(text, span.end())
        at = rest.end() if rest else span.end()
    return now + timedelta(seconds=seconds) if seconds else None


def judge(completed: Completed, said: Said, now: datetime | None = None) -> AgentResult:
    """Give the result of a run. Exit codes mislead: the provider's own verdict counts first."""

    def result(outcome: Outcome, error: str = "", reset_at: datetime | None = None) -> AgentResult:
        return AgentResult(
            outcome=outcome,
            text=said.text,
            usage=said.usage,
            seconds=completed.seconds,
            code=completed.code,
            error=_one_line(error),
            conversation=said.conversation,
            reset_at=reset_at,
        )

    if completed.end is not End.EXITED:
        told = completed.error_text()  # some agents try again in silence until they are stopped
        if completed.end in (End.IDLE, End.TIMEOUT) and _QUOTA.search(told):
            return result(Outcome.QUOTA, _telling(told, _QUOTA), reset_time(told, now))
        return result(*_ENDS[completed.end])
    if not said.failed and completed.code == 0:
        if is_suspicious(said.text):
            return result(Outcome.SUSPICIOUS, f"it ended well but said next to nothing: {said.text.strip()!r}")
        return result(Outcome.OK)
    cause = said.error or completed.error_text().strip() or said.text.strip()
    everything = "\n".join((said.error, completed.error_text(), "" if said.error else said.text))
    if said.limit or _TURNS.search(said.error):
        return result(Outcome.LIMIT, cause or "the limit of turns was reached")
    if _QUOTA.search(everything):
        return result(Outcome.QUOTA, _telling(everything, _QUOTA), reset_time(everything, now))
    if _LOGIN.search(everything):
        return result(Outcome.LOGIN_LOST, _telling(everything, _LOGIN))
    if _INPUT.search(everything):
        return result(Outcome.NEEDS_INPUT, "it needs input: " + _telling(everything, _INPUT, last=True))
    if completed.code < 0 or completed.code in (137, 143):
        return result(
            Outcome.KILLED, f"it was ended by signal {abs(completed.code) % 128}" + (f": {cause}" if cause else "")
        )
    return result(Outcome.FAILED, cause or f"it ended with code {completed.code} and said nothing")


def _telling(text: str, pattern: re.Pattern[str], *, last: bool = False) -> str:
    """Give the first line in which the pattern stands; the ``last`` one is git's own summary of what came before."""
    lines = [line for line in text.splitlines() if pattern.search(line)]
    return lines[-1 if last else 0] if lines else ""


def _one_line(text: str) -> str:
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    return cut_chars(lines[-1], 400) if lines else ""
