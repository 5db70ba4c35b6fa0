"""Keys and markers find an effect again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from droveway.core.keys import (
    Key,
    find_marker,
    find_markers,
    find_plan,
    marker,
    message_key,
    message_kind,
    message_marker,
    plan_marker,
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.req("BAT-004")
@given(st.dictionaries(st.text(max_size=10), json_values, max_size=4))
def test_a_marker_round_trips_and_stays_one_comment(payload: dict[str, object]) -> None:
    text = marker("attempt", payload)
    assert text.count("-->") == 1
    assert find_marker(f"before {text} after", "attempt") == payload


@pytest.mark.req("BAT-004")
def test_a_key_is_found_again_in_a_text() -> None:
    key = Key("BAT-191", "acme/shop", "issue:12", "abc", "2")
    text = f"hello\n\n{message_marker('conflict', key)}"
    assert message_key(text) == str(key)
    assert message_kind(text) == "conflict"
    assert Key.parse(str(key)) == key


@pytest.mark.req("BAT-020")
def test_malformed_markers_are_skipped_and_the_first_valid_one_wins() -> None:
    text = (
        "<!-- herd:batch-metadata {broken} --> "
        + marker("batch-metadata", {"a": 1})
        + marker("batch-metadata", {"a": 2})
    )
    assert [found["a"] for found in find_markers(text, "batch-metadata")] == [1, 2]
    assert find_marker(text, "batch-metadata") == {"a": 1}


@pytest.mark.req("BAT-021")
def test_a_plan_marker_names_plan_and_task() -> None:
    assert find_plan(f"x {plan_marker('p-7', 3)} y") == ("p-7", 3)
    assert find_plan("nothing") is None


@pytest.mark.parametrize("text", ["", "a/b", "r/o/n/s/h/0/extra", "r//n/s/h/0"])
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not an effect key"):
        Key.parse(text)
