"""Our schema is a cut of GitHub's published one: nothing is invented, each difference stands in one list."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from graphql import (
    GraphQLEnumType,
    GraphQLInputObjectType,
    GraphQLInterfaceType,
    GraphQLObjectType,
    GraphQLSchema,
    GraphQLUnionType,
    build_schema,
    is_required_argument,
    is_required_input_field,
    is_specified_scalar_type,
    parse,
    validate,
    validate_schema,
)

from droveway.forge import queries
from droveway.localforge.graphql.build import schema
from droveway.localforge.graphql.exceptions import EXCEPTIONS


@pytest.fixture(scope="module")
def published() -> GraphQLSchema:
    place = os.environ.get("HERD_JUDGES")
    assert place, "HERD_JUDGES is not set: it names the folder where npm installed @octokit/graphql-schema"
    path = Path(place, "node_modules", "@octokit", "graphql-schema", "schema.graphql")
    assert path.is_file(), f"GitHub's published GraphQL schema is missing: no file {path}"
    return build_schema(path.read_text(), assume_valid=True)


def differences(ours: GraphQLSchema, theirs: GraphQLSchema) -> Iterator[tuple[str, str]]:
    for name, mine in ours.type_map.items():
        if name.startswith("__") or is_specified_scalar_type(mine):
            continue
        other = theirs.type_map.get(name)
        if other is None:
            yield name, "no such type"
            continue
        if type(mine) is not type(other):
            yield name, "another kind"
            continue
        if isinstance(mine, GraphQLEnumType) and isinstance(other, GraphQLEnumType):
            yield from ((f"{name}.{value}", "no such value") for value in mine.values if value not in other.values)
        elif isinstance(mine, GraphQLUnionType) and isinstance(other, GraphQLUnionType):
            known = {member.name for member in other.types}
            yield from ((f"{name}|{m.name}", "no such member") for m in mine.types if m.name not in known)
        elif isinstance(mine, GraphQLInputObjectType) and isinstance(other, GraphQLInputObjectType):
            yield from input_differences(name, mine, other)
        elif isinstance(mine, GraphQLObjectType | GraphQLInterfaceType):
            assert isinstance(other, GraphQLObjectType | GraphQLInterfaceType)
            yield from field_differences(name, mine, other)


def input_differences(
    name: str, mine: GraphQLInputObjectType, other: GraphQLInputObjectType
) -> Iterator[tuple[str, str]]:
    for key, field in mine.fields.items():
        if key not in other.fields:
            yield f"{name}.{key}", "no such input field"
        elif str(field.type) != str(other.fields[key].type):
            yield f"{name}.{key}", f"{field.type}, published {other.fields[key].type}"
    for key, field in other.fields.items():
        if is_required_input_field(field) and key not in mine.fields:
            yield f"{name}.{key}", "required there, absent here"


def field_differences(
    name: str,
    mine: GraphQLObjectType | GraphQLInterfaceType,
    other: GraphQLObjectType | GraphQLInterfaceType,
) -> Iterator[tuple[str, str]]:
    published_interfaces = {each.name for each in other.interfaces}
    for each in mine.interfaces:
        if each.name not in published_interfaces:
            yield f"{name}&{each.name}", "no such interface"
    for key, field in mine.fields.items():
        there = other.fields.get(key)
        if there is None:
            yield f"{name}.{key}", "no such field"
            continue
        if str(field.type) != str(there.type):
            yield f"{name}.{key}", f"{field.type}, published {there.type}"
        for word, argument in field.args.items():
            if word not in there.args:
                yield f"{name}.{key}({word})", "no such argument"
            elif str(argument.type) != str(there.args[word].type):
                yield f"{name}.{key}({word})", f"{argument.type}, published {there.args[word].type}"
        for word, argument in there.args.items():
            if is_required_argument(argument) and word not in field.args:
                yield f"{name}.{key}({word})", "required there, absent here"


@pytest.mark.req("FRG-023", "FRG-031")
def test_every_type_field_argument_and_value_is_published(published: GraphQLSchema) -> None:
    found = dict(differences(schema(), published))
    assert {key: why for key, why in found.items() if key not in EXCEPTIONS} == {}


@pytest.mark.req("FRG-031")
def test_the_list_of_exceptions_holds_nothing_that_is_not_one(published: GraphQLSchema) -> None:
    found = dict(differences(schema(), published))
    assert set(EXCEPTIONS) == set(found)
    assert all(EXCEPTIONS.values())


@pytest.mark.req("FRG-004", "FRG-023")
def test_every_query_of_our_own_client_is_valid_here() -> None:
    texts = {key: value for key, value in vars(queries).items() if key.isupper() and isinstance(value, str)}
    texts = {key: value for key, value in texts.items() if "query " in value}
    assert {"REPO", "BATCH", "THREADS", "COMMIT"} <= texts.keys()
    texts["closed_issues"] = queries.closed_issues([1, 2])
    found = {key: [error.message for error in validate(schema(), parse(text))] for key, text in texts.items()}
    assert {key: why for key, why in found.items() if why} == {}


@pytest.mark.req("FRG-023")
def test_the_schema_is_valid_and_every_field_has_a_resolver() -> None:
    built = schema()
    assert validate_schema(built) == []
    bare = [
        f"{kind.name}.{name}"
        for kind in built.type_map.values()
        if isinstance(kind, GraphQLObjectType) and not kind.name.startswith("__")
        for name, field in kind.fields.items()
        if field.resolve is None
    ]
    assert bare == []
