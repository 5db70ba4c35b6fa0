"""From a document to GitHub's JSON: parse, validate (both kept by text), execute."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any, Final

from graphql import (
    DocumentNode,
    GraphQLSyntaxError,
    OperationDefinitionNode,
    OperationType,
    OverlappingFieldsCanBeMergedRule,
    execute_sync,
    parse,
    specified_rules,
    validate,
)

from droveway.localforge.access import Actor
from droveway.localforge.db import Tx
from droveway.localforge.graphql import errors
from droveway.localforge.graphql.build import schema
from droveway.localforge.graphql.context import Context

# gh's own queries fail this rule; GitHub answers them.
_RULES: Final = tuple(rule for rule in specified_rules if rule is not OverlappingFieldsCanBeMergedRule)
_LONGEST: Final = 500_000  # characters of a document


@functools.lru_cache(maxsize=256)
def _prepared(document: str) -> tuple[DocumentNode | None, dict[str, Any]]:
    """Give the parsed, valid document, or None and the answer that says why not."""
    try:
        parsed = parse(document, no_location=False)
    except GraphQLSyntaxError as error:
        return None, errors.rejected([error])
    found = validate(schema(), parsed, _RULES)
    return (None, errors.rejected(found)) if found else (parsed, {})


def execute(
    tx: Tx,
    actor: Actor,
    document: str,
    variables: Mapping[str, Any] | None = None,
    operation_name: str | None = None,
    *,
    rate: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Answer a document as ``actor`` within ``tx``. ``rate`` is what the field ``rateLimit`` gives.

    Never raises for what the client did: that is in ``errors``. What fails inside a mutation is undone alone.
    """
    if len(document) > _LONGEST:
        return {"errors": [{"message": "The query is too long."}]}
    parsed, answer = _prepared(document)
    if parsed is None:
        return answer
    there = Context(tx, actor, dict(rate) if rate else _unlimited(tx))
    result = execute_sync(
        schema(),
        parsed,
        context_value=there,
        variable_values=dict(variables or {}),
        operation_name=operation_name or None,
    )
    if result.data is None and result.errors and all(error.path is None for error in result.errors):
        return errors.rejected(result.errors)  # wrong variables, or no such operation
    shaped: dict[str, Any] = {"data": result.data}
    if result.errors:
        shaped["errors"] = [errors.runtime(error) for error in result.errors]
    return shaped


def _unlimited(tx: Tx) -> dict[str, Any]:
    return {"cost": 1, "limit": 5000, "nodeCount": 0, "remaining": 5000, "resetAt": tx.now, "used": 0}


def handle(tx: Tx, actor: Actor, body: Any, *, rate: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Answer the JSON body of ``POST /graphql``: ``query``, ``variables``, ``operationName``."""
    if not isinstance(body, dict) or not isinstance(body.get("query"), str):
        return {"errors": [{"message": "A query attribute must be specified and must be a string."}]}
    variables = body.get("variables")
    if isinstance(variables, str):  # some clients send JSON inside JSON
        try:
            variables = json.loads(variables or "{}")
        except ValueError:
            variables = None
    name = body.get("operationName")
    return execute(
        tx,
        actor,
        body["query"],
        variables if isinstance(variables, dict) else None,
        name if isinstance(name, str) else None,
        rate=rate,
    )


def writes(body: Any) -> bool:
    """Whether the body's document holds a mutation: then the caller opens a writing transaction."""
    document = body.get("query") if isinstance(body, dict) else None
    parsed = _prepared(document)[0] if isinstance(document, str) and len(document) <= _LONGEST else None
    return parsed is not None and any(
        isinstance(each, OperationDefinitionNode) and each.operation is OperationType.MUTATION
        for each in parsed.definitions
    )
