"""Where resolvers are written down: ``@field("Issue.title")``. What has none is a constant (`constants.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar

from graphql import GraphQLResolveInfo

Info: TypeAlias = GraphQLResolveInfo[Any]
Resolver = Callable[..., Any]
F = TypeVar("F", bound=Resolver)

#: ``Type.field`` → ``resolver(source, info, **arguments)``.
FIELDS: Final[dict[str, Resolver]] = {}


def field(*names: str) -> Callable[[F], F]:
    """Register the function as the resolver of these ``Type.field`` names."""

    def register(function: F) -> F:
        for name in names:
            assert name not in FIELDS, name
            FIELDS[name] = function
        return function

    return register


def attribute(*names: str, of: str) -> None:
    """Register fields that read the row's column ``of`` (a Node's ``row`` is a mapping)."""

    def resolve(source: Any, _info: Any) -> Any:
        return source.row[of]

    field(*names)(resolve)
