"""The embedded forge as an object: open a folder, ask the application, close it."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Callable, Iterator
from pathlib import Path

from droveway.core.clock import Clock
from droveway.core.errors import InputError
from droveway.core.ids import Ids
from droveway.localforge import imports
from droveway.localforge.access import Refused, actor_of, actor_of_token, find_repo
from droveway.localforge.app import App
from droveway.localforge.db import Row, Tx
from droveway.localforge.delivery import Sender
from droveway.localforge.heads import CiView, ci_view
from droveway.localforge.kernel import Kernel
from droveway.localforge.ops import accounts, moves, pulls
from droveway.localforge.rates import Rates
from droveway.localforge.smart_http import install_hook, wait_for_orphans


class LocalForge:
    """One forge for one machine (FRG-020). Any number of processes may open a folder; the first also recovers it."""

    def __init__(self, kernel: Kernel) -> None:
        """Use ``open``."""
        self._kernel = kernel
        self._rates = Rates(kernel.clock)
        self.app = App(kernel, self._rates)
        self.sender = Sender(kernel)
        self.first_tokens: dict[str, str] | None = None
        self._stack = contextlib.ExitStack()

    @classmethod
    def open(
        cls, data: Path, *, clock: Clock, ids: Ids, owner: str = "owner", base_url: str = "http://127.0.0.1"
    ) -> LocalForge:
        """Open the forge in ``data``, making it with two accounts on first use; the journal of pushes is settled."""
        forge = cls(Kernel(data, clock, ids, base_url))
        forge._begin(owner)
        return forge

    def _begin(self, owner: str) -> None:
        kernel = self._kernel
        install_hook(kernel.data)
        lock = self._stack.enter_context((kernel.data / "server.lock").open("ab"))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return  # another process serves this folder: its pushes are under way, not left behind
        wait_for_orphans(kernel.data)
        with kernel.write() as tx:
            if not tx.value("SELECT count(*) FROM users"):
                first = accounts.create_user(tx, owner, site_admin=True)
                bot = accounts.create_user(tx, accounts.BOT, kind="Bot")
                self.first_tokens = {row["login"]: accounts.issue_token(tx, row["id"]) for row in (first, bot)}
        with kernel.write() as tx:
            moves.recover(tx)
            pulls.reconcile(tx)
            tx.run("UPDATE deliveries SET state = 'failed' WHERE state = 'sending'")

    # --- addresses and counters ---

    @property
    def base_url(self) -> str:
        """What the addresses of pages and clones start with."""
        return self._kernel.base_url

    @base_url.setter
    def base_url(self, url: str) -> None:
        self._kernel.base_url = url.rstrip("/")

    @property
    def on_push(self) -> Callable[[str, str, str], None] | None:
        """Who is told of ``owner/name``, ref and SHA (zeros: deleted) after a push, or a PR's opening, has committed.

        It is called on the request's thread and must neither wait nor raise.
        """
        return self._kernel.pushed

    @on_push.setter
    def on_push(self, told: Callable[[str, str, str], None] | None) -> None:
        self._kernel.pushed = told

    def ci_view(self, login: str, external_id: str) -> list[CiView]:
        """Give the heads to check and the account's check runs that are not completed, of each repository (FRG-028)."""
        with self._kernel.read() as tx:
            return ci_view(tx, login, external_id)

    def counters(self) -> dict[str, int]:
        """Give the requests answered by ``METHOD /route/{template}``, ``token:<login>``, ``304`` and ``total``."""
        return self._rates.counters()

    def reset_counters(self) -> None:
        """Begin to count anew."""
        self._rates.reset()

    # --- for the command line and tests; over HTTP the same is done by requests ---

    def issue_token(self, login: str) -> str:
        """Make a token for an account. Raises InputError where there is none of this login."""
        with self._kernel.write() as tx:
            return accounts.issue_token(tx, _user(tx, login)["id"])

    def knows_token(self, token: str, login: str) -> bool:
        """Whether this is a token of the account, for instance one that a file kept."""
        with self._kernel.read() as tx:
            actor = actor_of_token(tx, token)
            return actor is not None and actor.login == login

    def create_user(self, login: str, *, kind: str = "User") -> None:
        """Make an account; ``kind`` is User or Bot."""
        with _plainly(), self._kernel.write() as tx:
            accounts.create_user(tx, login, kind=kind)

    def create_repo(self, owner: str, name: str, *, default_branch: str = "main", private: bool = False) -> None:
        """Make an empty repository; the product's bot gets the role maintain."""
        with _plainly(), self._kernel.write() as tx:
            accounts.create_repo(tx, _user(tx, owner), name, default_branch=default_branch, private=private)

    def import_repo(self, owner: str, name: str, source: Path) -> None:
        """Bring in all branches and tags of a git repository, bare or not, or of a bundle (FRG-030).

        The repository is made where it does not exist. Raises InputError where ``source`` is no repository.
        """
        with _plainly():
            imports.import_repo(self._kernel, owner, name, source)

    def set_role(self, owner: str, name: str, login: str, role: str) -> None:
        """Give an account a role on a repository: read, triage, write, maintain, admin; an empty one takes it away."""
        with _plainly(), self._kernel.write() as tx:
            accounts.set_role(tx, _repo(tx, owner, name), _user(tx, login)["id"], role)

    def has_repo(self, owner: str, name: str) -> bool:
        """Whether there is a repository of this name."""
        with self._kernel.read() as tx:
            return find_repo(tx, owner, name) is not None

    def owner(self) -> str:
        """Give the login of the account that was made first."""
        with self._kernel.read() as tx:
            return str(actor_of(tx, tx.value("SELECT min(id) FROM users")).login)

    def close(self) -> None:
        """Let go of threads, database and lock."""
        self.app.close()
        self._kernel.db.close()
        self._stack.close()


@contextlib.contextmanager
def _plainly() -> Iterator[None]:
    try:
        yield
    except Refused as refused:
        words = ("field", "code", "message", "value")
        parts = [" ".join(str(error[key]) for key in words if key in error) for error in refused.errors]
        raise InputError(": ".join([refused.message, *parts])) from refused


def _user(tx: Tx, login: str) -> Row:
    row = tx.one("SELECT * FROM users WHERE login = ?", login)
    if row is None:
        raise InputError(f"the forge has no account {login!r}")
    return row


def _repo(tx: Tx, owner: str, name: str) -> Row:
    row = find_repo(tx, owner, name)
    if row is None:
        raise InputError(f"the forge has no repository {owner}/{name}")
    return row
