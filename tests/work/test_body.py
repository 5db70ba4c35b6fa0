"""The codec of issue bodies."""

from __future__ import annotations

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from droveway.forge import Comment, Issue, MissingPartError, split_body
from droveway.forge.comments import part_text
from droveway.work import read_task
from droveway.work.body import (
    IssueBody,
    Unreadable,
    make_body,
    parse_body,
    render_body,
)
from droveway.work.frontmatter import FrontMatter, parse_block, render_block
from droveway.work.sections import contained, split_sections

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=60)
MARKDOWN = st.lists(
    st.sampled_from(
        [
            "## Task\n",
            "# Top\n",
            "## Other ##\n",
            "```\n",
            "~~~~\n",
            "<!--\n",
            "-->\n",
            "<details>\n",
            "</details>\n",
            "\n",
            "- [ ] a\n",
            "> ## quoted\n",
            "- ## in a list\n",
            "    ## code\n",
            "word ",
            "\r\n",
            "---\n",
            "herd:\n",
            "<pre>\n",
            "\t",
        ]
    ),
    max_size=25,
).map("".join)


def read(text: str) -> IssueBody:
    body = parse_body(text)
    assert isinstance(body, IssueBody), body
    return body


@pytest.mark.req("BAT-024")
def test_the_block_holds_the_fields_in_their_order_and_leaves_out_what_is_empty() -> None:
    front = FrontMatter(
        batch=3, depends_on=(4, 5), scope=("a.py", "b/*.go"), branch="herd/worker/6-x", type="fix", fix_cycle=1
    )
    assert render_block(front) == (
        '---\nherd:\n  version: 1\n  batch: 3\n  depends_on: [4, 5]\n  scope:\n    - "a.py"\n    - "b/*.go"\n'
        '  type: "fix"\n  fix_cycle: 1\n  branch: "herd/worker/6-x"\n---\n'
    )


@pytest.mark.req("BAT-026")
@pytest.mark.parametrize(
    "entry", ["*.go", "a: b", "#x", "-y", "[z", "yes", "null", "1", "'", '"', "\\", "\u2028", "\x85", "😀", " x "]
)
def test_strings_that_mean_something_in_yaml_come_back(entry: str) -> None:
    front = FrontMatter(scope=(entry, "plain"), runner_label=entry)
    assert parse_block(render_block(front)) == front


@pytest.mark.req("BAT-026")
@given(
    st.builds(
        FrontMatter,
        scope=st.lists(TEXT, max_size=4).map(tuple),
        depends_on=st.lists(st.integers(1, 10**6), max_size=4).map(tuple),
        conflicting_branches=st.lists(TEXT, max_size=3).map(tuple),
        branch=TEXT,
        type=TEXT,
        conflict_resolution=st.booleans(),
        ci_fix_cycle=st.integers(0, 50),
        origin=st.none() | st.integers(1, 99),
        priority=st.integers(-5, 5),
    )
)
def test_any_front_matter_comes_back(front: FrontMatter) -> None:
    block = render_block(front)
    assert parse_block(block) == front
    assert isinstance(yaml.safe_load(block.strip().strip("-")), dict)


@pytest.mark.req("BAT-028")
@given(MARKDOWN)
def test_what_is_read_is_written_back_byte_for_byte(text: str) -> None:
    body = parse_body(text)
    if isinstance(body, IssueBody):
        assert render_body(body) == text


@pytest.mark.req("BAT-028")
@given(st.text(max_size=200))
def test_any_text_reads_or_says_why_not(text: str) -> None:
    body = parse_body(text)
    if isinstance(body, IssueBody):
        assert render_body(body) == text
    else:
        assert body.error


@pytest.mark.req("BAT-028")
@given(MARKDOWN, MARKDOWN)
def test_no_part_breaks_out_of_its_section(task: str, context: str) -> None:
    made = make_body(FrontMatter(batch=1), task=task, context=context, acceptance_criteria=["it works"])
    body = read(render_body(made))
    titles = [section.title for section in body.sections if section.title]
    assert titles == ["Task", "Acceptance Criteria", *(["Context"] if context.strip() else [])]
    assert [box.text for box in body.criteria] == ["it works"]


@pytest.mark.req("BAT-028")
def test_sections_are_read_in_their_forms_and_unknown_ones_are_kept() -> None:
    text = (
        "---\nherd:\n  version: 1\n---\n\n## Task\n\nDo it.\n\n## Conventions\n\n- one\n  goes on\n- two\n\n"
        "## Acceptance Criteria\n\n- [ ] a\n- [x] b\n- [X] c\n\n## Mine\n\nkept\n\n"
        "## Files to Modify\n\n- `a.py`\n- `b c.py`\n"
    )
    body = read(text)
    assert body.task == "Do it."
    assert body.conventions == ("one\ngoes on", "two")
    assert [(box.text, box.done) for box in body.criteria] == [("a", False), ("b", True), ("c", True)]
    assert body.files == ("a.py", "b c.py")
    assert body.section("Mine") == "kept"
    changed = render_body(body.with_section("Context", "more"))
    assert changed.index("## Context") < changed.index("## Files to Modify")
    assert "## Mine\n\nkept" in changed


@pytest.mark.req("BAT-028")
@pytest.mark.parametrize(
    "hidden",
    [
        "```\n## No\n```\n",
        "~~~\n## No\n~~~\n",
        "<!--\n## No\n-->\n",
        "<details>\n\n## No\n\n</details>\n",
        "> ## No\n",
        "- ## No\n",
        "    ## No\n",
    ],
)
def test_a_heading_inside_something_else_starts_no_section(hidden: str) -> None:
    found = split_sections(f"## Task\n\n{hidden}\n## Next\n\nx\n")
    assert [section.title for section in found] == ["Task", "Next"]


@pytest.mark.req("BAT-027")
@pytest.mark.parametrize(
    "block",
    [
        "---\nherd:\n  depends_on: [a]\n---\n",
        "---\nherd: [1\n---\n",
        "---\nherd:\n  version: 2\n---\n",
        "---\nherd: text\n---\n",
        "---\nherd:\n  depends_on: [3]\nmore: 1\n---\n",
        "---\nherd:\n  depends_on: [-3]\n---\n",
        "---\nherd:\n  depends_on: [3]\n",
        "---\nherd:\n  depends_on: !!python/object:os.system [3]\n---\n",
    ],
)
def test_a_broken_block_is_unreadable_never_free_of_edges(block: str) -> None:
    body = parse_body(block + "\n## Task\n\nx\n")
    assert isinstance(body, Unreadable)
    assert "\n" not in body.error


@pytest.mark.req("BAT-027")
@pytest.mark.parametrize("text", ["just do it", "---\n\nA rule, and text\n\n---\nmore", "", "## Task\n\nx"])
def test_a_body_without_a_block_is_a_plain_prompt(text: str) -> None:
    body = read(text)
    assert body.front == FrontMatter()
    assert body.block == ""


def test_a_body_edited_in_a_browser_has_other_line_ends_and_reads() -> None:
    text = render_body(make_body(FrontMatter(batch=2, depends_on=(1,)), task="x", acceptance_criteria=["y"]))
    body = read(text.replace("\n", "\r\n"))
    assert body.front.depends_on == (1,)
    assert body.criteria[0].text == "y"
    assert render_body(body) == text.replace("\n", "\r\n")


@pytest.mark.req("BAT-025")
def test_a_changed_field_changes_the_block_alone() -> None:
    text = render_body(make_body(FrontMatter(batch=2), task="x")) + "trailing  \n"
    body = read(text)
    changed = render_body(
        msgspec.structs.replace(body, front=msgspec.structs.replace(body.front, branch="herd/worker/1-a"))
    )
    assert read(changed).front.branch == "herd/worker/1-a"
    assert changed.endswith(text[len(body.block) :])


@pytest.mark.req("BAT-029")
@pytest.mark.parametrize(
    ("front", "kinds"),
    [
        (FrontMatter(), (False, False, False, False)),
        (FrontMatter(type="fix"), (True, True, False, False)),
        (FrontMatter(type="fix", ci_fix_cycle=2), (True, False, True, False)),
        (FrontMatter(type="fix", conflict_resolution=True), (True, False, False, True)),
        (FrontMatter(type="standalone-fix"), (False, False, False, False)),
    ],
)
def test_the_kinds_of_fixes_are_told_apart(front: FrontMatter, kinds: tuple[bool, ...]) -> None:
    assert (front.is_fix_type, front.is_review_fix, front.is_ci_fix, front.is_resolver) == kinds


@pytest.mark.req("BAT-031")
def test_a_task_whose_body_was_posted_in_parts_is_read_whole() -> None:
    whole = render_body(make_body(FrontMatter(batch=1), task="line\n" * 30_000 + "the last line"))
    parts = split_body(whole)
    assert len(parts.rest) > 1
    comments = [
        Comment(n, "herd-bot", part_text("o/r", 7, text, n, len(parts.rest)), ours=True)
        for n, text in enumerate(parts.rest, 1)
    ]
    issue = Issue(7, "x", "Long", parts.first, "open", "herd-bot", (), 1)
    task = read_task(issue, comments)
    assert isinstance(task.body, IssueBody)
    assert task.body.task.endswith("the last line")
    with pytest.raises(MissingPartError, match="part 2 of"):
        read_task(issue, [comment for comment in comments if comment.id != 2])


def test_contained_text_keeps_its_words() -> None:
    assert contained("a\n## b\n```\nopen") == "a\n### b\n```\nopen\n```"
