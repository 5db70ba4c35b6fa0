"""QLT-003: a batch from its plan to landed, against a script that runs only the git commands that it needs.

Run ``python bench/orchestration.py [--tasks 50] [--tiers 5] [--workers 8] [--json]``. Agents are scripted and
instant, review is off, the project declares no validation. Both sides work on one embedded forge in a process of its
own, over HTTP, each in a repository of its own. The engine's side is ``herd up`` and ``herd plan --from-file``, two
processes as a person would start them; its time runs from the start of ``herd plan`` until the milestone is closed.
The git side is one clone; per task a work tree, a commit and a push; per tier the merges and one push that also
deletes the branches; at the end the merge into the base. CPU is what the kernel booked on the process of ``herd up``
in that time, its start, its children (git, agents) and the forge apart. The exit code is 1 where a batch does not
land or a target is missed at full size.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx

TASKS, TIERS, WORKERS = 50, 5, 8
WANTED_RATIO, WANTED_CPU = 3.0, 0.150  # of wall time; seconds of CPU per task
OWNER, ENGINE_REPO, PLAIN_REPO = "owner", "bench", "plain"
_TICK = os.sysconf("SC_CLK_TCK")
_IDENTITY = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in (("NAME", "Bench"), ("EMAIL", "bench@localhost"))}  # fmt: skip  # noqa: E501
CONFIG = """\
version: 1
agent: {{provider: scripted}}
workers: {{max_concurrent: {workers}, timeout_minutes: 10, progress_interval_seconds: 0}}
integrator: {{review: false, ci_start_grace_seconds: 0}}
pull_requests: {{auto_merge: true}}
validation: {{auto_detect: false}}
"""


def environment(home: Path) -> dict[str, str]:
    """Give the processes' environment: nothing of the machine's git or herd settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DROVEWAY_", "HERD_", "GIT_"))}
    return {**kept, **_IDENTITY, "DROVEWAY_HOME": str(home), "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}  # fmt: skip  # noqa: E501


@dataclass(frozen=True)
class Cpu:
    """What the kernel booked on a process, in seconds; ``children`` are those that have ended."""

    own: float
    children: float

    @classmethod
    def of(cls, pid: int) -> Cpu:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        user, system, child_user, child_system = (int(value) / _TICK for value in fields[11:15])
        return cls(user + system, child_user + child_system)

    def since(self, earlier: Cpu) -> Cpu:
        return Cpu(self.own - earlier.own, self.children - earlier.children)


@dataclass
class Service:
    """A process of the product that runs until it is told to end; its lines are kept."""

    popen: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    news: threading.Condition = field(default_factory=threading.Condition)

    def read(self) -> None:
        assert self.popen.stdout
        for line in self.popen.stdout:
            with self.news:
                self.lines.append(line.rstrip())
                self.news.notify_all()
        with self.news:
            self.news.notify_all()

    def wait_for(self, pattern: str, timeout: float) -> re.Match[str]:
        """Wait for a line; raise SystemExit with what was said where it does not come."""
        end, at = time.monotonic() + timeout, 0
        with self.news:
            while True:
                for line in self.lines[at:]:
                    if found := re.search(pattern, line):
                        return found
                at = len(self.lines)
                left = end - time.monotonic()
                if left <= 0 or self.popen.poll() is not None:
                    said = "\n".join(self.lines[-20:])
                    raise SystemExit(f"no line like {pattern!r} within {timeout:.0f} s; the last ones:\n{said}")
                self.news.wait(min(left, 1.0))


@contextlib.contextmanager
def service(*args: str, cwd: Path, env: dict[str, str]) -> Iterator[Service]:
    """Run ``herd ARGS`` beside us."""
    popen = subprocess.Popen(
        [sys.executable, "-m", "droveway", *args],
        cwd=cwd,
        env={**env, "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    running = Service(popen)
    reader = threading.Thread(target=running.read, daemon=True)
    reader.start()
    try:
        yield running
    finally:
        popen.terminate()
        try:
            popen.wait(40)
        except subprocess.TimeoutExpired:
            popen.kill()
            popen.wait()
        reader.join(5)
        if popen.stdout:
            popen.stdout.close()


def git(cwd: Path, env: dict[str, str], *args: str) -> str:
    done = subprocess.run(["git", *args], cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"git {' '.join(args[:3])} failed: {done.stderr.strip()}")
    return done.stdout.strip()


def tier_of(task: int, tasks: int, tiers: int) -> int:
    """Give a task's tier, from 0; tiers are of equal size, up to one."""
    return task * tiers // tasks


def plan(tasks: int, tiers: int) -> dict[str, object]:
    """Give the plan: each task of a tier needs the first one of the tier before."""
    first = {tier_of(task, tasks, tiers): task for task in reversed(range(tasks))}
    rows = []
    for task in range(tasks):
        tier = tier_of(task, tasks, tiers)
        rows.append(
            {
                "title": f"Write part {task:03}",
                "description": f"Write parts/part{task:03}.txt.",
                "implementation_details": "One line.",
                "acceptance_criteria": ["The file is there"],
                "scope": [f"parts/part{task:03}.txt"],
                "complexity": "low",
                "type": "feature",
                **({"depends_on": [first[tier - 1]]} if tier else {}),
            }
        )
    return {"batch_name": "Orchestration bench", "pr_summary": "Parts.", "tasks": rows}


def script(tasks: int) -> list[dict[str, object]]:
    """Give the agents' script: a file, a commit, a push."""
    return [
        {
            "role": "worker",
            "issue_title": f"Write part {task:03}",
            "steps": [
                {"write": {"path": f"parts/part{task:03}.txt", "text": f"part {task}\n"}},
                {"commit": f"Write part {task:03}"},
                {"push": True},
            ],
            "say": f"Part {task:03} is written as one line of text in its own file, as the task asks.",
        }
        for task in range(tasks)
    ]


def make_project(folder: Path, env: dict[str, str], workers: int) -> None:
    """Make a small project of 100 files."""
    folder.mkdir()
    for index in range(100):
        path = folder / "src" / f"file{index:03}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"file {index}\n" * 20)
    (folder / ".herd").mkdir()
    (folder / ".herd" / "config.yml").write_text(CONFIG.format(workers=workers))
    git(folder, env, "init", "-q", "-b", "main")
    git(folder, env, "add", "-A")
    git(folder, env, "commit", "-q", "-m", "Begin")


def by_git(root: Path, url: str, env: dict[str, str], tasks: int, tiers: int) -> float:
    """Do the batch's git work by hand; give the seconds."""
    began = time.perf_counter()
    git(root, env, "clone", "-q", url, "plain")
    clone = root / "plain"
    git(clone, env, "checkout", "-q", "-b", "batch")
    git(clone, env, "push", "-q", "origin", "batch")
    for tier in range(tiers):
        mine = [task for task in range(tasks) if tier_of(task, tasks, tiers) == tier]
        for task in mine:
            tree = root / f"tree{task}"
            git(clone, env, "worktree", "add", "-q", "-b", f"worker/{task}", str(tree), "batch")
            (tree / "parts").mkdir(exist_ok=True)
            (tree / "parts" / f"part{task:03}.txt").write_text(f"part {task}\n")
            git(tree, env, "add", "-A")
            git(tree, env, "commit", "-q", "-m", f"Write part {task:03}")
            git(tree, env, "push", "-q", "origin", f"worker/{task}")
            git(clone, env, "worktree", "remove", "--force", str(tree))
        for task in mine:
            git(clone, env, "merge", "-q", "--no-ff", "-m", f"Merge {task}", f"worker/{task}")
        git(clone, env, "push", "-q", "origin", "batch", *(f":worker/{task}" for task in mine))
    git(clone, env, "checkout", "-q", "main")
    git(clone, env, "merge", "-q", "--squash", "batch")
    git(clone, env, "commit", "-q", "-m", "Land")
    git(clone, env, "push", "-q", "origin", "main", ":batch")
    return time.perf_counter() - began


def by_engine(root: Path, url: str, env: dict[str, str], options: argparse.Namespace, forge: int) -> dict[str, object]:
    """Let the engine do it; give what it took."""
    tasks, tiers = options.tasks, options.tiers
    (root / "plan.json").write_text(json.dumps(plan(tasks, tiers)))
    (root / "script.yaml").write_text(json.dumps(script(tasks)))
    clone = root / "project"
    # The clone's own copy of the configuration says where the forge is.
    with (clone / ".herd" / "config.yml").open("a") as config:
        config.write(f"platform: {{provider: github, url: '{url}', owner: {OWNER}, repo: {ENGINE_REPO}}}\n")
    up = (
        "up", "--forge", url, "--token-file", str(root / "bot.token"), "--repo", f"{OWNER}/{ENGINE_REPO}",
        "--script", str(root / "script.yaml"), "--poll", "2",
    )  # fmt: skip
    with service(*up, cwd=root, env=env) as engine:
        engine.wait_for(r"^state ", 120)
        pid = engine.popen.pid
        start, forge_start = Cpu.of(pid), Cpu.of(forge)
        token = (root / "bot.token").read_text().strip()
        began = time.perf_counter()
        planned = subprocess.run(
            [sys.executable, "-m", "droveway", "plan", "--from-file", str(root / "plan.json"), "--yes"],
            cwd=clone,
            env={**env, "HERD_GITHUB_TOKEN": token},
            capture_output=True,
            text=True,
            check=False,
        )
        if planned.returncode:
            raise SystemExit(f"herd plan failed: {planned.stderr or planned.stdout}")
        plan_seconds = time.perf_counter() - began
        engine.wait_for(r"batch #\d+ is closed", options.timeout)
        seconds = time.perf_counter() - began
        cpu, forge_cpu = Cpu.of(pid).since(start), Cpu.of(forge).since(forge_start)
        failures = sum("failed" in line for line in engine.lines)
    return {
        "seconds": round(seconds, 2),
        "plan_seconds": round(plan_seconds, 2),
        "cpu_ms_per_task": round(cpu.own / tasks * 1000, 1),
        "children_cpu_ms_per_task": round(cpu.children / tasks * 1000, 1),
        "start_cpu_ms": round(start.own * 1000),
        "forge_cpu_ms_per_task": round((forge_cpu.own + forge_cpu.children) / tasks * 1000, 1),
        "failures": failures,
    }


def landed(url: str, token: str) -> dict[str, object]:
    """Read what stands on the forge at the end."""
    with httpx.Client(
        base_url=f"{url}/repos/{OWNER}/{ENGINE_REPO}", headers={"Authorization": f"Bearer {token}"}
    ) as api:

        def read(path: str) -> list[dict[str, object]]:
            found: list[dict[str, object]] = (
                api.get(path, params={"state": "all", "per_page": "100"}).raise_for_status().json()
            )
            return found

        pulls = read("/pulls")
        return {
            "milestones_closed": sum(each["state"] == "closed" for each in read("/milestones")),
            "issues_closed": sum(each["state"] == "closed" for each in read("/issues") if "pull_request" not in each),
            "pulls": len(pulls),
            "pulls_merged": sum(bool(each["merged_at"]) for each in pulls),
            "parts": len(read("/contents/parts")),
            "branches_left": len(read("/git/matching-refs/heads/herd/")),
        }


def measure(options: argparse.Namespace) -> dict[str, object]:
    """Run both sides on one forge; the engine first."""
    with tempfile.TemporaryDirectory(prefix="herd-bench-", ignore_cleanup_errors=True) as folder:
        root = Path(folder)
        env = environment(root / "home")
        make_project(root / "project", env, options.workers)
        serve = (
            "forge", "serve", "--data", str(root / "forge"), "--token-file", str(root / "bot.token"),
            "--owner-token-file", str(root / "owner.token"), "--ready-file", str(root / "ready"),
            *(part for name in (ENGINE_REPO, PLAIN_REPO) for part in ("--import", f"{name}={root / 'project'}")),
        )  # fmt: skip
        with service(*serve, cwd=root, env=env) as forge:
            forge.wait_for(r"^Try:", 120)
            url = (root / "ready").read_text().strip()
            engine = by_engine(root, url, env, options, forge.popen.pid)
            token = (root / "owner.token").read_text().strip()
            found = landed(url, token)
            authority = url.replace("http://", f"http://{OWNER}:{token}@", 1)
            plain = by_git(root, f"{authority}/{OWNER}/{PLAIN_REPO}.git", env, options.tasks, options.tiers)
    seconds = float(str(engine["seconds"]))
    whole = found["pulls_merged"] == 1 and found["parts"] == options.tasks and found["milestones_closed"] == 1
    return {
        "bench": "orchestration",
        "id": "QLT-003",
        "tasks": options.tasks,
        "tiers": options.tiers,
        "workers": options.workers,
        "git_seconds": round(plain, 2),
        **engine,
        "ratio": round(seconds / plain, 2),
        "landed": whole,
        **found,
        "wanted_ratio": WANTED_RATIO,
        "wanted_cpu_ms_per_task": WANTED_CPU * 1000,
        "met": whole and seconds / plain <= WANTED_RATIO and float(str(engine["cpu_ms_per_task"])) <= WANTED_CPU * 1000,
    }


def main(argv: list[str] | None = None) -> int:
    """Measure and print; exit 1 where the batch does not land, or a target is missed at full size."""
    parser = argparse.ArgumentParser(description="A batch from its plan to landed, against its bare git commands.")
    parser.add_argument("--tasks", type=int, default=TASKS, help=f"how many tasks (default {TASKS})")
    parser.add_argument("--tiers", type=int, default=TIERS, help=f"in how many tiers (default {TIERS})")
    parser.add_argument("--workers", type=int, default=WORKERS, help=f"at most so many at once (default {WORKERS})")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds until the batch must have landed")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    options = parser.parse_args(argv)
    if not 1 <= options.tiers <= options.tasks:
        parser.error("there must be at least one task per tier")
    row = measure(options)
    if options.json:
        print(json.dumps(row))
    else:
        print(
            f"{row['tasks']} tasks in {row['tiers']} tiers, {row['workers']} workers: landed {row['landed']}\n"
            f"wall time   git script {row['git_seconds']} s, engine {row['seconds']} s "
            f"(herd plan {row['plan_seconds']} s), "
            f"ratio {row['ratio']} (wanted: at most {WANTED_RATIO})\n"
            f"CPU a task  engine process {row['cpu_ms_per_task']} ms (wanted: at most {WANTED_CPU * 1000:.0f}), "
            f"its children {row['children_cpu_ms_per_task']} ms, forge {row['forge_cpu_ms_per_task']} ms; "
            f"the engine's start {row['start_cpu_ms']} ms"
        )
    full = options.tasks >= TASKS
    return 0 if row["landed"] and (row["met"] or not full) else 1


if __name__ == "__main__":
    sys.exit(main())
