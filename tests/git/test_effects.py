"""MoveRefs: looked at just before, made once, refused with a kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from droveway.core.actuator import Done, EffectError, Ready, Stale
from droveway.core.clock import SystemClock
from droveway.core.decisions import MoveRefs, RefUpdate
from droveway.git import Git, Mirror, MoveRefsHandler, Remote

from .conftest import BOT, WHEN, Forge


def moves(*updates: RefUpdate) -> MoveRefs:
    return MoveRefs("o/r", "BAT-180/o/r/batch:1/-/0", updates)


@pytest.fixture
def handler(mirror: Mirror) -> MoveRefsHandler:
    async def mirror_for(repo: str) -> Mirror:
        assert repo == "o/r"
        return mirror

    return MoveRefsHandler(mirror_for)


@pytest.fixture
async def new(mirror: Mirror, forge: Forge) -> str:
    main = forge.tip("main") or ""
    return await mirror.commit_tree(await mirror.tree_of(main), [main], "new", BOT, BOT, WHEN)


@pytest.mark.smoke
@pytest.mark.req("BAT-180", "BAT-182")
async def test_refs_are_moved_once_and_then_found_done(handler: MoveRefsHandler, forge: Forge, new: str) -> None:
    main = forge.tip("main")
    gone = forge.branch("w", {"x": "1"})
    action = moves(RefUpdate("refs/heads/main", main, new), RefUpdate("refs/heads/w", gone, None))
    assert isinstance(await handler.look(action), Ready)
    receipt = await handler.apply(action)
    assert receipt.sha == new
    assert await handler.look(action) == Done(receipt)
    assert await handler.apply(action) == receipt
    assert forge.refs() == {"refs/heads/main": new}


@pytest.mark.req("BAT-183")
async def test_a_ref_that_stands_elsewhere_makes_it_stale_and_a_race_in_between_is_lost(
    handler: MoveRefsHandler, forge: Forge, new: str
) -> None:
    main = forge.tip("main")
    action = moves(RefUpdate("refs/heads/main", main, new), RefUpdate("refs/heads/other", None, new))
    moved = forge.branch("main", {"theirs": "1"})
    found = await handler.look(action)
    assert isinstance(found, Stale)
    assert moved in found.reason
    with pytest.raises(EffectError) as caught:
        await handler.apply(action)
    assert caught.value.kind == "lost-race"
    assert forge.refs() == {"refs/heads/main": moved}


@pytest.mark.req("BAT-182")
async def test_a_move_that_was_half_made_is_finished(
    handler: MoveRefsHandler, mirror: Mirror, forge: Forge, new: str
) -> None:
    main = forge.tip("main")
    gone = forge.branch("w", {"x": "1"})
    action = moves(RefUpdate("refs/heads/main", main, new), RefUpdate("refs/heads/w", gone, None))
    await mirror.push([RefUpdate("refs/heads/main", main, new)])
    assert isinstance(await handler.look(action), Ready)
    await handler.apply(action)
    assert forge.refs() == {"refs/heads/main": new}


@pytest.mark.req("BAT-183")
async def test_a_protected_branch_is_rejected(handler: MoveRefsHandler, forge: Forge, new: str) -> None:
    hook = forge.path / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(EffectError) as caught:
        await handler.apply(moves(RefUpdate("refs/heads/main", forge.tip("main"), new)))
    assert caught.value.kind == "rejected"
    assert "hook declined" in str(caught.value)


@pytest.mark.req("BAT-165")
async def test_a_forge_that_does_not_answer_is_neither_done_nor_stale(
    handler: MoveRefsHandler, forge: Forge, new: str, tmp_path: Path
) -> None:
    action = moves(RefUpdate("refs/heads/gone", new, None))
    forge.path.rename(tmp_path / "away")
    with pytest.raises(EffectError) as caught:
        await handler.look(action)
    assert caught.value.kind == "transport"


async def test_a_refused_credential_is_told_apart(
    tmp_path: Path, git: Git, clock: SystemClock, unauthorised: str, new: str
) -> None:
    mirror = await Mirror.open(tmp_path / "m2.git", Remote(unauthorised, "wrong-token"), git=git, clock=clock)

    async def mirror_for(_repo: str) -> Mirror:
        return mirror

    with pytest.raises(EffectError) as caught:
        await MoveRefsHandler(mirror_for).look(moves(RefUpdate("refs/heads/x", None, new)))
    assert caught.value.kind == "auth"
    assert "wrong-token" not in str(caught.value)
