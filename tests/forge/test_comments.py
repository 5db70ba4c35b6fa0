"""Texts that we post: keys, size, parts that come together again (BAT-004, BAT-005, BAT-030, BAT-031, K07, L01)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from droveway.core.keys import Key, find_plan, message_key, message_kind, message_marker, plan_marker
from droveway.core.text import byte_length
from droveway.core.vocabulary import Message
from droveway.forge import Comment, MissingPartError, fit, join_parts, render, split_body
from droveway.forge.comments import LIMIT, PART, cut_at, find_by_key, part_text, post, put
from droveway.work.body import without_markers

from .conftest import Road

FORGE_LIMIT = 65_536  # characters
KEY = str(Key("BAT-021", "owner/road", "batch:1", "-", "0"))
PLAN = plan_marker("plan-1", 0)


def ours(text: str, *, mine: bool = True) -> Comment:
    return Comment(1, "herd-bot", text, ours=mine)


def posted(body: str, tail: str = "") -> tuple[str, list[Comment]]:
    parts = split_body(body, tail)
    of = len(parts.rest)
    return parts.first, [ours(part_text("owner/road", 7, text, n, of)) for n, text in enumerate(parts.rest, 1)]


@pytest.mark.req("BAT-004")
def test_a_comment_ends_with_its_key() -> None:
    text = render("hello", Message.ALERT, KEY, ["<!-- herd:x {} -->"])
    assert text == f"hello\n\n<!-- herd:x {{}} -->\n{message_marker('alert', KEY)}"
    assert (message_key(text), message_kind(text)) == (KEY, "alert")


@pytest.mark.req("BAT-004")
def test_a_key_counts_only_in_a_comment_of_ours() -> None:
    text = render("hello", Message.ALERT, KEY)
    assert find_by_key([ours(text, mine=False)], KEY) is None
    assert find_by_key([ours(text, mine=False), ours(text)], KEY) == ours(text)
    assert find_by_key([ours("hello")], KEY) is None


@pytest.mark.req("BAT-030", "BAT-031")
def test_a_body_within_the_limit_is_one_text() -> None:
    first, comments = posted("short", message_marker("task-issue", KEY))
    assert (first, comments) == (f"short\n\n{message_marker('task-issue', KEY)}", [])
    assert join_parts(first, []) == first


SIZES = [LIMIT - 300, LIMIT, 65_536, 65_537, 130_000, 150_000, 300_000]


@pytest.mark.req("BAT-030", "BAT-031")
@pytest.mark.parametrize("unit", ["x", "ü", "🚧", "word\n", "a paragraph\n\n", "👩‍👩‍👧 "])
@pytest.mark.parametrize("size", SIZES)
def test_a_long_body_comes_back_whole_and_every_text_is_within_the_forge_s_limit(unit: str, size: int) -> None:
    body = (unit * (size // len(unit.encode()) + 1))[
        : size // max(1, len(unit.encode()) // len(unit))
    ] + "\nTHE LAST LINE"
    first, comments = posted(f"{body}\n\n{PLAN}", message_marker("task-issue", KEY))
    for text in (first, *(each.body for each in comments)):
        assert len(text) <= FORGE_LIMIT
    assert byte_length(first) <= LIMIT
    assert find_plan(first) == ("plan-1", 0)  # a marker at the body's end stays in the body
    assert message_key(first) == KEY
    whole = join_parts(first, comments)
    assert whole == f"{body}\n\n{PLAN}\n{message_marker('task-issue', KEY)}"


@pytest.mark.req("BAT-031")
def test_the_parts_are_headed_and_marked_as_the_specification_says() -> None:
    _, comments = posted("x" * 200_000)
    assert len(comments) == 3
    assert comments[1].body.startswith("_Part 2 of 3 (continued from issue body)._\n\n")
    assert '<!-- herd:body-part {"n":2,"of":3} -->' in comments[1].body
    assert message_kind(comments[1].body) == "body-part"
    assert comments[0].body.count("x") == PART


@pytest.mark.req("BAT-031")
def test_a_rest_within_the_limit_is_one_comment() -> None:
    first, comments = posted("x" * (LIMIT + 60_000))
    assert len(comments) == 1
    assert "_The text continues in the comments below: 1 part._" in first


@pytest.mark.req("BAT-031")
def test_a_missing_part_is_named_and_a_stranger_s_part_is_none() -> None:
    first, comments = posted("x" * 200_000)
    with pytest.raises(MissingPartError, match="part 2 of 3"):
        join_parts(first, [comments[0], comments[2]])
    foreign = msgspec.structs.replace(comments[1], ours=False)
    with pytest.raises(MissingPartError, match="part 2 of 3"):
        join_parts(first, [comments[0], foreign, comments[2]])


@pytest.mark.req("BAT-031")
def test_windows_line_ends_of_a_web_edit_do_no_harm() -> None:
    first, comments = posted("a line\n" * 20_000)
    edited = [msgspec.structs.replace(each, body=each.body.replace("\n", "\r\n")) for each in comments]
    assert join_parts(first, edited) == join_parts(first, comments)


@pytest.mark.req("BAT-006", "BAT-031")
@pytest.mark.parametrize(
    ("text", "limit", "head"),
    [
        ("aaaa\n\nbbbb\ncccc", 12, "aaaa\n\n"),
        ("aaaa\nbbbb", 7, "aaaa\n"),
        ("aaaabbbb", 6, "aaaabb"),
        ("üüüü", 5, "üü"),
        ("🚧🚧", 7, "🚧"),
        ("short", 50, "short"),
    ],
)
def test_a_cut_falls_on_a_clean_boundary(text: str, limit: int, head: str) -> None:
    assert cut_at(text, limit) == (head, text[len(head) :])


@pytest.mark.req("BAT-031")
def test_a_blank_line_further_than_200_bytes_away_is_no_boundary() -> None:
    assert len(cut_at("a\n\n" + "x" * 400, 300)[0]) == 300


@pytest.mark.req("BAT-006")
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=400), st.integers(8, 300))
def test_a_cut_loses_nothing_and_obeys_its_limit(text: str, limit: int) -> None:
    head, rest = cut_at(text, limit)
    assert head + rest == text
    assert byte_length(head) <= limit
    assert head or not text


@pytest.mark.req("BAT-006", "BAT-030")
@pytest.mark.parametrize("count", [65_536, 65_537, 300_000])
@pytest.mark.parametrize("unit", ["x", "🚧", "line\n"])
def test_a_comment_that_is_too_long_is_cut_says_so_and_keeps_its_markers(unit: str, count: int) -> None:
    text = render((unit * count)[:count], Message.ALERT, KEY, [PLAN])
    assert byte_length(text) <= LIMIT
    assert "[cut:" in text
    assert message_key(text) == KEY
    assert find_plan(text) == ("plan-1", 0)


@pytest.mark.req("BAT-006")
def test_a_cut_inside_a_code_fence_closes_it() -> None:
    text = fit("before\n````py\n```\n" + "x = 1\n" * 20_000 + "````\nafter")
    assert "\n````\n\n_…[cut:" in text
    assert "\n````\n\n_…[cut:" not in fit("```\na\n```\n" + "x = 1\n" * 20_000)


@pytest.mark.req("BAT-004", "FRG-007")
async def test_a_comment_is_posted_once_and_edited_in_place(road: Road) -> None:
    issue = await road.bot.create_issue(road.repo, "t", "b")
    await road.person.create_comment(road.repo, issue.number, render("forged", Message.ALERT, KEY))
    one = await post(road.bot, road.repo, issue.number, Message.ALERT, KEY, "text")
    two = await post(road.bot, road.repo, issue.number, Message.ALERT, KEY, "text")
    three = await put(road.bot, road.repo, issue.number, Message.ALERT, KEY, "other")
    writes = road.bot.counters.total.writes
    await put(road.bot, road.repo, issue.number, Message.ALERT, KEY, "other")
    assert road.bot.counters.total.writes == writes
    assert one.id == two.id == three.id
    bodies = [without_markers(each.body) for each in await road.bot.comments(road.repo, issue.number) if each.ours]
    assert bodies == ["other"]
