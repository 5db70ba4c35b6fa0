"""A commit's files in a folder of their own, without a repository, and as its own attributes want them."""

from __future__ import annotations

import shutil
from pathlib import Path

from droveway.core.clock import Clock
from droveway.git.mirror import Mirror, init_bare
from droveway.git.place import _remove_tree
from droveway.git.runner import GitError


class Checkout:
    """``root/tree`` holds exactly one commit's files, without ``.git``; ``root`` goes as a whole."""

    def __init__(self, root: Path, clock: Clock) -> None:
        """Name the folder; ``create`` fills it."""
        self.root = root
        self.tree = root / "tree"
        self._clock = clock

    @classmethod
    async def create(cls, root: Path, mirror: Mirror, sha: str) -> Checkout:
        """Write the files of the commit ``sha``, fetched where the mirror lacks it; what stood there before goes.

        Raises GitError where the forge's branches have no such commit. Submodules stay empty folders.
        """
        made = cls(root, mirror.clock)
        await made.remove()
        if await mirror.rev_parse(sha) is None:
            await mirror.fetch()
        # The mirror's own info/attributes are another commit's: only a git directory of our own is without any.
        own = root / "git"
        await init_bare(mirror.git, own)
        (own / "objects" / "info").mkdir(exist_ok=True)
        (own / "objects" / "info" / "alternates").write_text(f"{mirror.path / 'objects'}\n")
        made.tree.mkdir()
        try:
            await mirror.git.run("read-tree", sha, git_dir=own)
            where = {"git_dir": own, "work_tree": made.tree, "cwd": made.tree}
            await mirror.git.run("checkout-index", "--all", "--quiet", timeout=600.0, **where)  # type: ignore[arg-type]
        except GitError:
            await made.remove()
            raise
        shutil.rmtree(own)
        return made

    async def remove(self) -> None:
        """Delete all of it, whatever a command has left there."""
        await _remove_tree(self.root, self._clock)
