"""Errors as GitHub's GraphQL gives them: ``{type, path, locations, message}`` beside ``data`` (FRG-023)."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Any

import structlog
from graphql import GraphQLError


class Refusal(Exception):  # noqa: N818 (an answer, as access.Refused is)
    """A resolver's answer that is an error. ``type`` is GitHub's word, for instance ``NOT_FOUND``."""

    def __init__(self, type_: str, message: str) -> None:
        """Hold GitHub's type and one line for people."""
        super().__init__(message)
        self.type = type_


def not_found(message: str) -> Refusal:
    """Give the refusal for a thing that does not exist or may not be seen."""
    return Refusal("NOT_FOUND", message)


def _locations(error: GraphQLError) -> list[dict[str, int]]:
    return [{"line": place.line, "column": place.column} for place in error.locations or ()]


def runtime(error: GraphQLError) -> dict[str, Any]:
    """Shape an error that came up while a query was answered."""
    cause = error.original_error
    shaped: dict[str, Any] = {}
    if isinstance(cause, Refusal):
        shaped["type"] = cause.type
    if error.path is not None:
        shaped["path"] = list(error.path)
    message = error.message
    if cause is not None and not isinstance(cause, Refusal | GraphQLError):
        # Only the lines: a trace with its variables would show what people wrote.
        trace = "".join(traceback.format_exception(cause))
        structlog.get_logger().error("localforge.graphql.failed", path=shaped.get("path"), trace=trace)
        message = "Something went wrong while executing your query."
    return {**shaped, "locations": _locations(error), "message": message}


def rejected(errors: Sequence[GraphQLError]) -> dict[str, Any]:
    """Shape the answer to a document that is not valid: errors and no ``data``."""
    return {"errors": [{"locations": _locations(error), "message": error.message} for error in errors]}
