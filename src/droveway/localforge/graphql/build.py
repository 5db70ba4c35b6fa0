"""The schema with its resolvers, built once per process."""

from __future__ import annotations

import functools
from importlib import resources
from typing import Any, Final

from graphql import (
    GraphQLInterfaceType,
    GraphQLObjectType,
    GraphQLSchema,
    GraphQLUnionType,
    build_schema,
)

from droveway.localforge.graphql import (  # noqa: F401 (importing a module registers its resolvers)
    actors,
    checks,
    commits,
    constants,
    issues,
    mutations_issues,
    mutations_pulls,
    mutations_reviews,
    pulls,
    repositories,
    reviews,
    root,
    settings,
)
from droveway.localforge.graphql.registry import FIELDS, Info, Resolver

_CONNECTION: Final[dict[str, Resolver]] = {
    "nodes": lambda source, _info: source.nodes(),
    "edges": lambda source, _info: source.edges(),
    "pageInfo": lambda source, _info: source.page_info(),
    "totalCount": lambda source, _info: source.total,
    "issueCount": lambda source, _info: source.total,
}


def _key(name: str) -> Resolver:
    return lambda source, _info: source[name]


def _attribute(name: str) -> Resolver:
    return lambda source, _info: getattr(source, name)


def _resolver(kind: str, name: str) -> Resolver | None:
    found = FIELDS.get(f"{kind}.{name}")
    if found is not None:
        return found
    if kind.endswith("Connection"):
        return _CONNECTION.get(name)
    if kind.endswith("Edge") and name in ("node", "cursor"):
        return _attribute(name)
    if kind.endswith("Payload") or kind in constants.PLAIN:
        return _key(name)
    return None


def _type(source: Any, _info: Info, _abstract: Any) -> str:
    name: str = source.type
    return name


@functools.cache
def schema() -> GraphQLSchema:
    """Give the schema; a field without a resolver keeps ``resolve`` None, which a test refuses."""
    text = resources.files(__package__).joinpath("schema.graphql").read_text(encoding="utf-8")
    built = build_schema(text)
    for kind in built.type_map.values():
        if isinstance(kind, GraphQLInterfaceType | GraphQLUnionType):
            kind.resolve_type = _type
        elif isinstance(kind, GraphQLObjectType) and not kind.name.startswith("__"):
            for name, field in kind.fields.items():
                field.resolve = _resolver(kind.name, name)
    return built
