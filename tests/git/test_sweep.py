"""Sweeps and merges in the object database: what they make, what they leave alone."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from droveway.core.decisions import RefUpdate
from droveway.git import AlreadyContained, Conflict, Identity, Merged, Mirror, Replayed, folded_pairs
from droveway.git.loose import CommitWriter

from .conftest import BOT, COMMIT, WHEN, Forge, sh


def text(_number: int, branch: str) -> str:
    return f"Merge {branch}"


async def swept(mirror: Mirror, tip: str, *branches: tuple[int, str]):
    await mirror.fetch()
    refs = await mirror.refs()
    return await mirror.sweep(
        tip, [(n, name, refs[f"refs/heads/{name}"]) for n, name in branches], message=text, **COMMIT
    )


@pytest.mark.smoke
@pytest.mark.req("BAT-180", "BAT-181", "BAT-179")
async def test_a_conflict_stops_nothing_and_each_branch_gets_one_merge_commit_in_number_order(
    forge: Forge, mirror: Mirror
) -> None:
    tip = forge.tip("main") or ""
    forge.branch("w/3", {"c.txt": "3\n"})
    forge.branch("w/1", {"src/a.txt": "one\nONE\nthree\n"})
    forge.branch("w/2", {"src/a.txt": "one\nTWO\nthree\n"})
    forge.branch("w/10", {"d.txt": "10\n"})
    result = await swept(mirror, tip, (10, "w/10"), (3, "w/3"), (2, "w/2"), (1, "w/1"), (4, "main"))
    assert [m.number for m in result.merged] == [1, 3, 10]
    assert [(c.number, c.conflict.paths) for c in result.conflicts] == [(2, ("src/a.txt",))]
    assert [c.number for c in result.contained] == [4]
    chain = [c for c in await mirror.log(f"{tip}..{result.final}") if len(c.parents) == 2]
    assert [c.subject for c in reversed(chain)] == ["Merge w/1", "Merge w/3", "Merge w/10"]
    assert chain[-1].parents[0] == tip
    assert all(c.at == WHEN and c.author == BOT for c in chain)
    assert forge.refs() == {**forge.refs(), "refs/heads/main": tip}
    assert sorted(await mirror.list_files(result.final)) == ["README.md", "c.txt", "d.txt", "src/a.txt"]
    sh(mirror.path, "fsck", "--strict")


@pytest.mark.req("BAT-181")
async def test_a_branch_whose_commit_is_missing_or_unrelated_fails_alone(forge: Forge, mirror: Mirror) -> None:
    tip = forge.tip("main") or ""
    forge.branch("w/1", {"x": "1"})
    sh(forge.clone, "checkout", "-q", "--orphan", "alone")
    sh(forge.clone, "commit", "-qm", "alone")
    sh(forge.clone, "push", "-q", "origin", "HEAD:refs/heads/alone")
    await mirror.fetch()
    refs = await mirror.refs()
    branches = [(1, "w/1", refs["refs/heads/w/1"]), (2, "alone", refs["refs/heads/alone"]), (3, "gone", "1" * 40)]
    result = await mirror.sweep(tip, branches, message=text, **COMMIT)
    assert [m.number for m in result.merged] == [1]
    assert [(f.number, "unrelated" in f.reason or "not in the mirror" in f.reason) for f in result.failed] == [
        (2, True),
        (3, True),
    ]


@pytest.mark.req("BAT-182")
async def test_the_same_sweep_gives_the_same_commits_and_a_later_one_merges_exactly_the_rest(
    forge: Forge, mirror: Mirror
) -> None:
    tip = forge.tip("main") or ""
    for n in (1, 2, 3):
        forge.branch(f"w/{n}", {f"{n}.txt": f"{n}\n"})
    first = await swept(mirror, tip, (1, "w/1"), (2, "w/2"))
    again = await swept(mirror, tip, (1, "w/1"), (2, "w/2"))
    assert first == again
    rest = await swept(mirror, first.final, (1, "w/1"), (2, "w/2"), (3, "w/3"))
    assert [m.number for m in rest.merged] == [3]
    assert [c.number for c in rest.contained] == [1, 2]
    nothing = await swept(mirror, rest.final, (3, "w/3"))
    assert not nothing.changed
    assert nothing.final == rest.final


@pytest.mark.req("BAT-182")
async def test_a_branch_contained_in_another_one_of_the_sweep_is_contained(forge: Forge, mirror: Mirror) -> None:
    tip = forge.tip("main") or ""
    forge.branch("w/2", {"2.txt": "2\n"})
    forge.branch("w/1", {"1.txt": "1\n"}, "w/2")
    forge.branch("w/3", {"2.txt": "3\n"}, "w/2")
    result = await swept(mirror, tip, (1, "w/1"), (2, "w/2"), (3, "w/3"))
    assert [m.number for m in result.merged] == [1, 3]
    assert [c.number for c in result.contained] == [2]
    assert await mirror.show_file(result.final, "2.txt") == b"3\n"


@pytest.mark.req("BAT-163")
async def test_progress_files_are_removed_in_one_last_commit(forge: Forge, mirror: Mirror) -> None:
    tip = forge.tip("main") or ""
    forge.branch("w/1", {".herd/progress/1.md": "- [x] a\n", ".herd/keep": "k", "WORKER_PROGRESS.md": "old"})
    forge.branch("w/2", {".herd/progress/2.md": "- [x] b\n", "sub/WORKER_PROGRESS.md": "not at the root"})
    result = await swept(mirror, tip, (1, "w/1"), (2, "w/2"))
    assert result.cleanup == result.final
    assert result.removed == (".herd/progress/1.md", ".herd/progress/2.md", "WORKER_PROGRESS.md")
    left = await mirror.list_files(result.final)
    assert left == [".herd/keep", "README.md", "src/a.txt", "sub/WORKER_PROGRESS.md"]
    assert (await mirror.commit_info(result.final)).parents == (result.merged[-1].commit,)


@pytest.mark.smoke
@pytest.mark.req("BAT-238")
async def test_union_merges_and_unmergeable_files_are_what_they_are_in_a_work_tree(
    forge: Forge, mirror: Mirror
) -> None:
    attributes = {
        ".gitattributes": "CHANGELOG.md merge=union\n*.lock -merge\n",
        "deep/er/.gitattributes": "*.md merge=union\n/only.txt merge=union\n",
        "CHANGELOG.md": "# Changes\n",
        "deep/er/notes.md": "# Notes\n",
        "deep/er/more/notes.md": "# Notes\n",
        "deep/er/only.txt": "x\n",
        "deep/notes.md": "# Notes\n",
        "deep/er/more/only.txt": "x\n",
        "p.lock": "".join(f"{n}\n" for n in range(50)),
    }
    tip = forge.branch("base", attributes)
    both = ["CHANGELOG.md", "deep/er/notes.md", "deep/er/more/notes.md", "deep/er/only.txt"]
    for name in ("one", "two"):
        forge.branch(f"w/{name}", {path: f"{attributes[path]}{name}\n" for path in both}, "base")
        forge.branch(f"plain/{name}", {"deep/notes.md": f"# Notes\n{name}\n"}, "base")
        forge.branch(f"below/{name}", {"deep/er/more/only.txt": f"{name}\n"}, "base")
    forge.branch("lock/one", {"p.lock": "first\n" + attributes["p.lock"]}, "base")
    forge.branch("lock/two", {"p.lock": attributes["p.lock"] + "last\n"}, "base")
    names = [f"{kind}/{n}" for kind in ("w", "plain", "below", "lock") for n in ("one", "two")]
    result = await swept(mirror, tip, *enumerate(names, 1))
    assert [c.branch for c in result.conflicts] == ["plain/two", "below/two", "lock/two"]
    for path in both:
        shown = (await mirror.show_file(result.final, path) or b"").decode()
        assert shown.endswith("one\ntwo\n"), path


@pytest.mark.req("BAT-238")
async def test_attributes_that_a_merged_branch_brings_count_for_the_next_and_vanish_with_the_next_tip(
    forge: Forge, mirror: Mirror
) -> None:
    tip = forge.branch("base", {"log.txt": "0\n"})
    forge.branch("w/1", {".gitattributes": "log.txt merge=union\n"}, "base")
    forge.branch("w/2", {"log.txt": "0\ntwo\n"}, "base")
    forge.branch("w/3", {"log.txt": "0\nthree\n"}, "base")
    with_it = await swept(mirror, tip, (1, "w/1"), (2, "w/2"), (3, "w/3"))
    assert not with_it.conflicts
    without = await swept(mirror, tip, (2, "w/2"), (3, "w/3"))
    assert [c.number for c in without.conflicts] == [3]


@pytest.mark.req("BAT-180")
async def test_two_renames_of_one_file_conflict_in_all_three_paths(forge: Forge, mirror: Mirror) -> None:
    """Case G01: no file has a marker; git's exit code and index say it."""
    tip = forge.branch("base", {"old.txt": "".join(f"line {n}\n" for n in range(20))})
    for n, name in ((1, "left.txt"), (2, "right.txt")):
        forge.branch(f"w/{n}", {"old.txt": None, name: "".join(f"line {n}\n" for n in range(20))}, "base")
    result = await swept(mirror, tip, (1, "w/1"), (2, "w/2"))
    assert [m.number for m in result.merged] == [1]
    (found,) = result.conflicts
    assert found.conflict.paths == ("left.txt", "old.txt", "right.txt")
    assert found.conflict.kinds == ("CONFLICT (rename/rename)",)
    assert "and to right.txt in w/2" in found.conflict.messages[0]


@pytest.mark.req("BAT-180")
async def test_a_directory_rename_with_a_new_file_in_the_old_place_is_a_conflict(forge: Forge, mirror: Mirror) -> None:
    files = {f"old/{n}.txt": f"content {n}\n" * 5 for n in range(4)}
    tip = forge.branch("base", files)
    moved = {**dict.fromkeys(files), **{k.replace("old/", "new/"): v for k, v in files.items()}}
    forge.branch("w/1", moved, "base")
    forge.branch("w/2", {"old/fresh.txt": "fresh\n"}, "base")
    result = await swept(mirror, tip, (1, "w/1"), (2, "w/2"))
    assert [c.number for c in result.conflicts] == [2]


async def test_names_that_differ_only_in_case_are_warned_of(forge: Forge, mirror: Mirror) -> None:
    """Case G05, in all orders."""
    tip = forge.branch("base", {"old.txt": "one\ntwo\nthree\nfour\n"})
    forge.branch("w/1", {"old.txt": None, "Old.txt": "one\ntwo\nthree\nfour\n"}, "base")
    forge.branch("w/2", {"old.txt": "one\ntwo\nthree\nFOUR\n"}, "base")
    forge.branch("w/3", {"OLD.txt": "something else\n"}, "base")
    for order in ((1, 2, 3), (3, 2, 1), (2, 3, 1)):
        clean = await swept(mirror, tip, *((k, f"w/{n}") for k, n in enumerate(order, 1) if n != 3))
        assert clean.warnings == ()
        assert await mirror.list_files(clean.final) == ["Old.txt", "README.md", "src/a.txt"]
        assert await mirror.show_file(clean.final, "Old.txt") == b"one\ntwo\nthree\nFOUR\n"
        both = await swept(mirror, tip, *((k, f"w/{n}") for k, n in enumerate(order, 1)))
        assert both.warnings == ("OLD.txt and Old.txt differ only in case",)


def test_folders_that_fold_are_named_once() -> None:
    assert folded_pairs(["Dir/a", "Dir/b", "dir/a", "x/A", "x/a"]) == (("Dir", "dir"), ("x/A", "x/a"))


async def test_a_file_whose_line_ends_alone_changed_is_told(forge: Forge, mirror: Mirror) -> None:
    """Case G06."""
    lines = [f"line {n}" for n in range(450)]
    base = forge.branch("base", {"f.txt": "\n".join(lines) + "\n", "g.txt": "a\n"})
    lines[3:6] = ["x", "y", "z"]
    head = forge.branch("w/1", {"f.txt": "\r\n".join(lines) + "\r\n", "g.txt": "b\n"}, "base")
    await mirror.fetch()
    (found,) = await mirror.line_ends(base, head)
    assert (found.path, found.changed, found.real) == ("f.txt", 900, 6)


async def test_nine_branches_that_raise_one_version_line_are_merged_or_named_and_none_is_lost(
    forge: Forge, mirror: Mirror
) -> None:
    """Case G03 (c)."""
    tip = forge.branch("base", {"version": "1\n"})
    for n in range(1, 10):
        forge.branch(f"w/{n}", {"version": f"1.{n}\n", f"{n}.txt": "x"}, "base")
    result = await swept(mirror, tip, *((n, f"w/{n}") for n in range(1, 10)))
    assert [m.number for m in result.merged] == [1]
    assert [c.number for c in result.conflicts] == list(range(2, 10))


async def test_a_merge_is_made_refused_or_needless(forge: Forge, mirror: Mirror) -> None:
    base = forge.tip("main") or ""
    ours = forge.branch("batch", {"src/a.txt": "ours\n"})
    theirs = forge.branch("w", {"src/a.txt": "theirs\n"})
    fine = forge.branch("fine", {"other": "x"})
    await mirror.fetch()
    merged = await mirror.merge(ours, fine, message="Merge base", **COMMIT)
    assert isinstance(merged, Merged)
    assert (await mirror.commit_info(merged.commit)).parents == (ours, fine)
    assert await mirror.tree_of(merged.commit) == merged.tree
    assert isinstance(await mirror.merge(ours, theirs, message="m", **COMMIT), Conflict)
    assert isinstance(await mirror.merge(ours, base, message="m", **COMMIT), AlreadyContained)
    forward = await mirror.merge(base, ours, message="m", **COMMIT)
    assert isinstance(forward, Merged)


async def test_a_replay_keeps_authors_and_drops_what_is_there_already(forge: Forge, mirror: Mirror) -> None:
    first = forge.branch("b1", {"x": "1\n"}, message="first\n\nbody")
    second = forge.branch("b2", {"y": "2\n"}, "b1", message="second")
    onto = forge.branch("onto", {"x": "1\n", "z": "3\n"}, message="has the first")
    clash = forge.branch("clash", {"y": "other\n"})
    await mirror.fetch()
    result = await mirror.replay(onto, [first, second], committer=BOT, when=WHEN + timedelta(hours=1))
    assert isinstance(result, Replayed)
    assert [old for old, _ in result.commits] == [second]
    info = await mirror.commit_info(result.tip)
    assert info.parents == (onto,)
    assert info.author == Identity("A Person", "p@example.invalid")
    assert (info.committer, info.at, info.authored_at) == (BOT, WHEN + timedelta(hours=1), WHEN)
    assert await mirror.list_files(result.tip) == ["README.md", "src/a.txt", "x", "y", "z"]
    conflict = await mirror.replay(clash, [first, second], committer=BOT, when=WHEN)
    assert isinstance(conflict, Conflict)
    assert conflict.paths == ("y",)


@pytest.mark.parametrize("message", ["plain", "two\n\nlines\n", "", "\n\n", "ş 語 \udcff", "a" * 100_000])
async def test_a_commit_that_we_write_is_the_one_that_git_writes(mirror: Mirror, message: str) -> None:
    tip = (await mirror.refs())["refs/heads/main"]
    tree = await mirror.tree_of(tip)
    for who in (BOT, Identity(" Jöhn <x> ", "a<b>@c.invalid")):
        writer = await CommitWriter.open(mirror, who, BOT, WHEN)
        second = writer.write(tree, [tip], "another")
        ours = writer.write(tree, [tip, second], message)
        gits = await mirror.commit_tree(tree, [tip, second], message, who, BOT, WHEN)
        assert ours == gits
    sh(mirror.path, "fsck", "--no-dangling")


@pytest.mark.req("BAT-138")
async def test_exactly_the_named_paths_are_taken_out_of_a_tree(forge: Forge, mirror: Mirror) -> None:
    head = forge.branch(
        "w",
        {
            ".herd/review-fixes-1.md": "x",
            ".herd/review-fixes-x/keep.md": "x",
            ".herd/tmp/a/b": "x",
            ".herd/tmpfile": "x",
            "sub/.herd/tmp/c": "x",
            "*.md": "x",
        },
    )
    await mirror.fetch()
    tree, gone = await mirror.without(head, (".herd/tmp", ".herd/review-fixes-*.md", "absent/*.x"))
    assert gone == (".herd/review-fixes-1.md", ".herd/tmp/a/b")
    assert set(await mirror.changed_files(head, tree)) == set(gone)
    assert await mirror.remove_paths(head, ["nothing"]) == await mirror.tree_of(head)


async def test_what_is_read_of_a_repository(forge: Forge, mirror: Mirror) -> None:
    base = forge.tip("main") or ""
    head = forge.branch("w", {"src/a.txt": "one\n2\nthree\n", "new": "n\n"})
    other = forge.branch("x", {"README.md": "bye\n"})
    await mirror.fetch()
    assert await mirror.merge_base(head, other) == base
    assert await mirror.is_ancestor(base, head)
    assert not await mirror.is_ancestor(head, base)
    assert await mirror.rev_parse("refs/heads/w") == head
    assert await mirror.rev_parse("refs/heads/nothing") is None
    assert await mirror.rev_parse("--all") is None
    assert await mirror.changed_files(base, head) == ["new", "src/a.txt"]
    assert "2 files changed" in await mirror.diff_stat(base, head)
    assert b"README" not in await mirror.diff(other, head)
    assert b"README" in await mirror.diff(other, head, three_dot=False)
    assert b"src/a.txt" not in await mirror.diff(base, head, paths=["new"])
    assert await mirror.show_file(head, "src/a.txt") == b"one\n2\nthree\n"
    for absent in ("src", "src/", "nothing", "../x", "src/*"):
        assert await mirror.show_file(head, absent) is None
    assert [c.sha for c in await mirror.log(f"{base}..{head}")] == [head]


@pytest.mark.req("BAT-180")
async def test_a_consolidation_is_one_fetch_and_one_push(forge: Forge, mirror: Mirror, monkeypatch) -> None:
    tip = forge.branch("herd/batch/1-x", {})
    names = [f"herd/worker/{n}-w" for n in range(1, 6)]
    for n, name in enumerate(names):
        forge.branch(name, {f"{n}.txt": "x"})
    verbs: list[str] = []
    run = mirror.git.run

    async def counted(*args: str, **more):
        verbs.append(args[0])
        return await run(*args, **more)

    monkeypatch.setattr(mirror.git, "run", counted)
    result = await swept(mirror, tip, *enumerate(names, 1))
    moves = [RefUpdate("refs/heads/herd/batch/1-x", tip, result.final)]
    moves += [RefUpdate(f"refs/heads/{m.branch}", m.sha, None) for m in result.merged]
    assert (await mirror.push(moves)).ok
    assert [v for v in verbs if v in ("fetch", "push", "ls-remote")] == ["fetch", "push"]
    assert set(forge.refs()) == {"refs/heads/main", "refs/heads/herd/batch/1-x"}
    assert forge.tip("herd/batch/1-x") == result.final
    assert set(await mirror.refs()) == set(forge.refs())


async def test_info_attributes_is_written_only_in_the_mirror(forge: Forge, mirror: Mirror, tmp_path: Path) -> None:
    tip = forge.branch("base", {'a b/"q"/.gitattributes': '*.x merge=union\n[attr]m x\n# c\n"s p" -merge\n'})
    forge.branch("w/1", {"z": "1"}, "base")
    await swept(mirror, tip, (1, "w/1"))
    written = (mirror.path / "info" / "attributes").read_text()
    assert written == '"a b/\\"q\\"/**/*.x" merge=union\n"a b/\\"q\\"/**/s p" -merge\n'
