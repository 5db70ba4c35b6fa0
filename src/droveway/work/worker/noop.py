"""When "nothing needed to change" is an answer, and when it is a failure (BAT-156 … BAT-158)."""

from __future__ import annotations

from typing import Literal

import msgspec

from droveway.agents import OutputError, parse_output

_HEADINGS = ("Findings reviewed against the current code:", "Conclusion:")


class FindingConclusion(msgspec.Struct, frozen=True):
    """What a worker says of one finding."""

    finding: str = ""
    conclusion: str = ""


class NoopVerdict(msgspec.Struct, frozen=True):
    """The agreed verdict object."""

    verdict: Literal["no-change-needed"]
    reason: str
    findings: tuple[FindingConclusion, ...] = ()

    def text(self) -> str:
        """Give it for people."""
        lines = [self.reason.strip()]
        lines += [f"- {item.finding.strip()}: {item.conclusion.strip()}" for item in self.findings]
        return "\n".join(lines)


def noop_evidence(output: str) -> str | None:
    """Give the reasoning of an agent that changed nothing, or None where it gave none: then the attempt failed.

    The verdict object with a reason counts, or both headings in their order with text after the second.
    """
    try:
        verdict = parse_output(output, NoopVerdict)
    except OutputError:
        pass
    else:
        return verdict.text() if verdict.reason.strip() else None
    first, second = (output.find(heading) for heading in _HEADINGS)
    if 0 <= first < second and output[second + len(_HEADINGS[1]) :].strip():
        return output[first:].strip()
    return None
