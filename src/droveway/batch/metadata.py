"""What a milestone's description says of its batch (BAT-020)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from droveway.core.keys import find_markers, marker
from droveway.core.text import cut_bytes, neutralise
from droveway.work import Author

_KIND = "batch-metadata"
_SUMMARY_BYTES = 20_000


class CreatedBy(msgspec.Struct, frozen=True):
    """Who approved the plan."""

    login: str = ""
    name: str = ""
    email: str = ""

    def author(self, host: str) -> Author:
        """Give the author of the batch's commits; without a known e-mail the forge's noreply address (BAT-128)."""
        login = self.login or "herd"
        return Author(self.name or login, self.email or f"{login}@users.noreply.{host or 'invalid'}")


class Metadata(msgspec.Struct, frozen=True):
    """The marker's content. ``batch_branch`` empty: by the name rule; ``plan`` empty: a batch made by hand."""

    plan: str = ""
    pr_summary: str = ""
    batch_branch: str = ""
    created_by: CreatedBy = CreatedBy()
    version: int = 1


def read_metadata(description: str) -> Metadata:
    """Read a description: the first valid marker wins; without one, the text is the summary (legacy)."""
    for payload in find_markers(description or "", _KIND):
        try:
            return msgspec.convert(payload, Metadata)
        except msgspec.ValidationError:
            continue
    return Metadata(pr_summary=(description or "").strip())


def render_metadata(metadata: Metadata) -> str:
    """Give the description: the summary for people, then the marker."""
    kept = msgspec.structs.replace(metadata, pr_summary=cut_bytes(metadata.pr_summary, _SUMMARY_BYTES))
    payload = {"version": kept.version, **msgspec.to_builtins(kept)}
    text = neutralise(kept.pr_summary).strip()
    return "\n\n".join(part for part in (text, marker(_KIND, payload)) if part)


def is_batch(description: str) -> bool:
    """Whether a milestone is a batch of ours."""
    return bool(find_markers(description or "", _KIND))


def created_by(raw: Mapping[str, str] | CreatedBy) -> CreatedBy:
    """Take the user who approved the plan from plain JSON."""
    return raw if isinstance(raw, CreatedBy) else msgspec.convert(dict(raw), CreatedBy)
