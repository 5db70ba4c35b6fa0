"""GraphQL, the other view of the forge's rows (FRG-023, FRG-033): GitHub's schema, cut to what is answered here.

``handle`` takes the body of ``POST /graphql``; ``execute`` takes its parts. Both give GitHub's JSON: ``data``, and
``errors`` with ``type``, ``path``, ``locations`` and ``message``. They run inside the caller's transaction,
which must be a writing one where ``writes(body)`` says so.
"""

from __future__ import annotations

from droveway.localforge.graphql.engine import execute, handle, writes

__all__ = ["execute", "handle", "writes"]
