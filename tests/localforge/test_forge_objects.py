"""Refs, git objects, contents, comparison (FRG-022), and import (FRG-030)."""

from __future__ import annotations

import base64

import pytest

from droveway.core.errors import InputError

from .world import World, commit, git


@pytest.mark.req("FRG-022")
async def test_refs_are_made_moved_matched_and_deleted(world: World) -> None:
    one, two = world.sha("main~1"), world.sha("main")
    ref = "refs/herd/attic/x/1"
    made = await world.bot.repo("POST", "/git/refs", {"ref": ref, "sha": one}, want=201)
    assert made["object"] == {
        "sha": one,
        "type": "commit",
        "url": f"http://forge.test/repos/owner/road/git/commits/{one}",
    }
    again = await world.bot.repo("POST", "/git/refs", {"ref": ref, "sha": one}, want=422)
    assert again["message"] == "Reference already exists"
    await world.bot.repo("PATCH", f"/git/{ref}", {"sha": two})
    await world.bot.repo("PATCH", f"/git/{ref}", {"sha": one}, want=422)
    await world.bot.repo("PATCH", f"/git/{ref}", {"sha": one, "force": True})
    assert [row["ref"] for row in await world.bot.repo("GET", "/git/matching-refs/herd/att")] == [ref]
    names = [row["ref"] for row in await world.bot.repo("GET", "/git/matching-refs/heads/c")]
    assert names == ["refs/heads/clean", "refs/heads/conflict"]
    await world.bot.repo("DELETE", f"/git/{ref}", want=204)
    await world.bot.repo("GET", "/git/ref/herd/attic/x/1", want=404)
    await world.bot.repo("GET", "/git/ref/heads/cl", want=404)  # no prefix of a name


@pytest.mark.req("FRG-022")
@pytest.mark.parametrize(
    "body",
    [
        {"ref": "heads/x", "sha": "0" * 40},
        {"ref": "refs/heads/x", "sha": "1" * 40},
        {"ref": "refs/heads/a..b", "sha": "HEAD"},
        {"ref": "refs/pull/1/head", "sha": "HEAD"},
        {"ref": "refs/x", "sha": "HEAD"},
    ],
)
async def test_refs_that_can_not_be_are_422(world: World, body: dict[str, str]) -> None:
    if body["sha"] == "HEAD":
        body = {**body, "sha": world.sha("main")}
    await world.bot.repo("POST", "/git/refs", body, want=422)


@pytest.mark.req("FRG-022")
async def test_the_default_branch_can_not_be_deleted(world: World) -> None:
    await world.bot.repo("DELETE", "/git/refs/heads/main", want=422)


@pytest.mark.req("FRG-022")
async def test_a_commit_is_built_from_blob_tree_and_commit(world: World) -> None:
    blob = await world.bot.repo("POST", "/git/blobs", {"content": "aGk=", "encoding": "base64"}, want=201)
    base = await world.bot.repo("GET", "/git/trees/main")
    entries = [
        {"path": "dir/hi", "mode": "100644", "type": "blob", "sha": blob["sha"]},
        {"path": "inline", "mode": "100644", "type": "blob", "content": "x"},
        {"path": "code.txt", "mode": "100644", "type": "blob", "sha": None},
    ]
    tree = await world.bot.repo("POST", "/git/trees", {"base_tree": base["sha"], "tree": entries}, want=201)
    assert [entry["path"] for entry in tree["tree"]] == ["README.md", "dir", "inline"]
    parent = world.sha("main")
    body = {"message": "made", "tree": tree["sha"], "parents": [parent], "author": {
        "name": "A", "email": "a@b", "date": "2026-01-02T03:04:05Z"}}  # fmt: skip
    commit_ = await world.bot.repo("POST", "/git/commits", body, want=201)
    assert commit_["author"] == {"name": "A", "email": "a@b", "date": "2026-01-02T03:04:05Z"}
    await world.bot.repo("PATCH", "/git/refs/heads/main", {"sha": commit_["sha"]})
    whole = await world.bot.repo("GET", "/git/trees/main?recursive=1")
    assert "dir/hi" in [entry["path"] for entry in whole["tree"]]
    listed = await world.bot.repo("GET", "/commits?per_page=1")
    assert listed[0]["commit"]["message"] == "made"
    one = await world.bot.repo("GET", "/commits/main")
    assert {file["filename"]: file["status"] for file in one["files"]} == {
        "code.txt": "removed", "dir/hi": "added", "inline": "added"}  # fmt: skip


@pytest.mark.req("FRG-022")
async def test_contents_are_read_in_base64_raw_and_as_folders(world: World) -> None:
    file = await world.bot.repo("GET", "/contents/README.md")
    assert base64.b64decode(file["content"]) == b"two\n"
    old = await world.bot.repo("GET", "/contents/README.md?ref=conflict")
    assert base64.b64decode(old["content"]) == b"theirs\n"
    assert await world.bot.repo("GET", "/contents/README.md", Accept="application/vnd.github.raw") == "two\n"
    assert [entry["name"] for entry in await world.bot.repo("GET", "/contents/")] == ["README.md", "code.txt"]
    await world.bot.repo("GET", "/contents/none", want=404)
    await world.bot.repo("GET", "/contents/README.md?ref=none", want=404)
    body = {"message": "m", "content": base64.b64encode(b"three\n").decode(), "sha": file["sha"]}
    await world.bot.repo("PUT", "/contents/README.md", {**body, "sha": "0" * 40}, want=409)
    await world.bot.repo("PUT", "/contents/README.md", body)
    await world.bot.repo("PUT", "/contents/a/b", {**body, "sha": None}, want=201)
    assert (await world.bot.repo("GET", "/contents/a"))[0]["path"] == "a/b"


@pytest.mark.req("FRG-022")
async def test_a_comparison_counts_both_sides_from_the_merge_base(world: World) -> None:
    seen = await world.bot.repo("GET", "/compare/main...clean")
    assert (seen["status"], seen["ahead_by"], seen["behind_by"]) == ("diverged", 1, 1)
    assert [file["filename"] for file in seen["files"]] == ["new.txt"]
    assert seen["merge_base_commit"]["sha"] == world.sha("main~1")
    assert (await world.bot.repo("GET", "/compare/main...main"))["status"] == "identical"
    await world.bot.repo("GET", "/compare/main...none", want=404)


@pytest.mark.req("FRG-022")
async def test_annotated_tags_are_read_and_made(world: World) -> None:
    ref = await world.bot.repo("GET", "/git/ref/tags/v1")
    assert ref["object"]["type"] == "tag"
    tag = await world.bot.repo("GET", f"/git/tags/{ref['object']['sha']}")
    assert (tag["tag"], tag["message"], tag["object"]["sha"]) == ("v1", "first", world.sha("main"))
    body = {"tag": "v2", "message": "second", "object": world.sha("main"), "type": "commit"}
    made = await world.bot.repo("POST", "/git/tags", body, want=201)
    await world.bot.repo("POST", "/git/refs", {"ref": "refs/tags/v2", "sha": made["sha"]}, want=201)
    assert [row["name"] for row in await world.bot.repo("GET", "/tags")] == ["v2", "v1"]


@pytest.mark.req("FRG-030")
async def test_an_import_brings_every_branch_and_tag_and_the_default_branch(world: World) -> None:
    other = world.tmp / "other"
    other.mkdir()
    git("init", "-q", "-b", "trunk", cwd=other)
    sha = commit(other, "first", a="1\n")
    git("branch", "x/y", cwd=other)
    git("tag", "t1", cwd=other)
    bundle = world.tmp / "other.bundle"
    git("bundle", "create", "-q", str(bundle), "--all", "HEAD", cwd=other)
    for name, place in (("tree", other), ("bundle", bundle)):
        world.forge.import_repo("owner", name, place)
        assert (await world.bot("GET", f"/repos/owner/{name}"))["default_branch"] == "trunk"
        refs = await world.bot("GET", f"/repos/owner/{name}/git/refs")
        assert {row["ref"]: row["object"]["sha"] for row in refs} == {
            "refs/heads/trunk": sha, "refs/heads/x/y": sha, "refs/tags/t1": sha}  # fmt: skip
    with pytest.raises(InputError, match="no git repository"):
        world.forge.import_repo("owner", "bad", world.tmp)
    with pytest.raises(InputError, match="does not exist"):
        world.forge.import_repo("owner", "bad", world.tmp / "none")
    assert not world.forge.has_repo("owner", "bad")


def test_names_that_can_not_be_are_refused_in_one_line(world: World) -> None:
    with pytest.raises(InputError, match="already exists"):
        world.forge.create_repo("owner", "ROAD")
    with pytest.raises(InputError, match="no account"):
        world.forge.create_repo("ghost", "x")
    with pytest.raises(InputError, match="invalid"):
        world.forge.create_user("../etc")
