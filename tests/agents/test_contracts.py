"""Answers that are almost JSON (case D03)."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from droveway.agents import OutputError, parse_output, schema


class Finding(msgspec.Struct, frozen=True):
    message: str
    line: int | None = None


class Review(msgspec.Struct, frozen=True):
    approved: bool
    findings: list[Finding]


GOOD = '{"approved": false, "findings": [{"message": "off by one", "line": 3}]}'
READ = Review(False, [Finding("off by one", 3)])
HOLDS_FENCE = json.dumps({"approved": True, "findings": [{"message": 'use\n```json\n{"approved": false}\n```'}]})


@pytest.mark.req("AGT-006", "REV-032")
@pytest.mark.parametrize("exactly_one", [False, True])
@pytest.mark.parametrize(
    ("text", "review"),
    [
        pytest.param(GOOD, READ, id="bare"),
        pytest.param(f"```json\n{GOOD}\n```", READ, id="a-fence"),
        pytest.param(f"I looked at {{all}} of it.\n{GOOD}\nThat's it :-}}", READ, id="b-prose-around"),
        pytest.param(f'He said "wait {{" and\n{GOOD}', READ, id="prose-with-quote-and-brace"),
        pytest.param(
            HOLDS_FENCE, Review(True, [Finding('use\n```json\n{"approved": false}\n```')]), id="h-fence-inside"
        ),
        pytest.param('{"approved": true, "findings": []}', Review(True, []), id="empty-list"),
    ],
)
def test_one_complete_object_is_read_wherever_it_stands(text: str, review: Review, exactly_one: bool) -> None:
    assert parse_output(text, Review, exactly_one=exactly_one) == review


@pytest.mark.req("AGT-006")
@pytest.mark.parametrize("exactly_one", [False, True])
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param('{"approved": false, "findings": "seven points"}', r"findings", id="c-wrong-type"),
        pytest.param('{"approved": false, "findings": [{"message": "a\nb"}]}', "broken", id="d-raw-newline"),
        pytest.param('{"approved": true, "findings": [{"message": "one"}, {"messa', "broken", id="e-cut-off"),
        pytest.param('{"approved": true, "findings": []', "broken", id="e-cut-at-the-end"),
        pytest.param("", "empty", id="f-empty"),
        pytest.param(" \n", "empty", id="f-blank"),
        pytest.param("Looks good to me, approved!", "no JSON object", id="prose-only"),
        pytest.param('{"findings": []}', "approved", id="missing-field"),
        pytest.param('{"approved": "yes", "findings": []}', "approved", id="no-bool"),
        pytest.param('{"approved": false, "approved": true, "findings": []}', "twice", id="key-twice"),
        pytest.param('{"approved": true, "findings": [], "score": NaN}', "NaN", id="no-json-number"),
        pytest.param(f'{GOOD} and now {{"approved": tr', "broken", id="a-broken-one-last"),
    ],
)
def test_anything_else_is_refused_with_the_cause(text: str, problem: str, exactly_one: bool) -> None:
    with pytest.raises(OutputError, match=problem):
        parse_output(text, Review, exactly_one=exactly_one)


@pytest.mark.req("AGT-006", "REV-032")
@pytest.mark.parametrize("between", ["\n", " or rather: ", "\n```\n```json\n", ","])
def test_of_two_objects_the_last_counts_but_a_review_may_hold_only_one(between: str) -> None:
    two = '{"approved": true, "findings": []}' + between + GOOD
    assert parse_output(two, Review) == READ
    with pytest.raises(OutputError, match="2 JSON objects; exactly one"):
        parse_output(two, Review, exactly_one=True)


@pytest.mark.req("REV-032")
def test_a_broken_first_object_voids_a_review() -> None:
    with pytest.raises(OutputError, match="broken"):
        parse_output('{"approved": tru} ' + GOOD, Review, exactly_one=True)
    assert parse_output('{"approved": tru} ' + GOOD, Review) == READ


@pytest.mark.req("AGT-006")
@given(st.text(), st.text(), st.integers())
def test_what_is_cut_anywhere_is_never_read_as_an_approval(first: str, second: str, line: int) -> None:
    text = json.dumps({"findings": [{"message": first}, {"message": second, "line": line}], "approved": True})
    for end in range(len(text)):
        with pytest.raises(OutputError):
            parse_output(text[:end], Review)


@pytest.mark.req("AGT-006")
@given(
    st.recursive(
        st.none() | st.booleans() | st.text(), lambda inner: st.dictionaries(st.text(), inner) | st.lists(inner)
    )
)
def test_any_object_survives_prose_and_a_fence(value: object) -> None:
    wrapped = {"value": value}
    text = f"So:\n```json\n{json.dumps(wrapped, ensure_ascii=False)}\n```\nDone."
    assert parse_output(text, dict, exactly_one=True) == wrapped


@pytest.mark.req("AGT-006")
def test_the_schema_comes_from_the_type() -> None:
    made = schema(Review)
    assert made["$defs"]["Review"]["required"] == ["approved", "findings"]
