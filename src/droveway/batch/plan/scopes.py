"""Whether the scopes of two tasks can name one file (BAT-017)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence

_GLOB = frozenset("*?[")
MAX_OVERLAPS = 50
MAX_COMPARISONS = 500_000


def overlaps(scopes: Mapping[int, Sequence[str]], group: Mapping[int, int]) -> Iterator[tuple[int, int, str, str]]:
    """Yield (task, other task, path, other path) for overlapping scopes of tasks in one group, each pair of tasks once.

    At most MAX_OVERLAPS, after at most MAX_COMPARISONS comparisons: the result is a warning, not a proof.
    """
    # Two entries can only meet where the fixed part of one is a prefix of the other's.
    index: dict[tuple[int, tuple[str, ...]], list[tuple[int, str]]] = {}
    budget = MAX_COMPARISONS
    seen: set[tuple[int, int]] = set()
    entries = sorted(
        ((len(_fixed(path)), task, path) for task, paths in scopes.items() for path in paths if _parts(path)),
    )
    for _, task, path in entries:
        fixed = _fixed(path)
        for depth in range(len(fixed) + 1):
            for other, other_path in index.get((group[task], fixed[:depth]), ()):
                pair = (min(task, other), max(task, other))
                if other == task or pair in seen:
                    continue
                budget -= 1
                if budget < 0:
                    return
                if can_meet(path, other_path):
                    seen.add(pair)
                    yield (task, other, path, other_path) if task < other else (other, task, other_path, path)
                    if len(seen) >= MAX_OVERLAPS:
                        return
        index.setdefault((group[task], fixed), []).append((task, path))


def can_meet(a: str, b: str) -> bool:
    """Whether some file can be named by both; an entry without wildcards also names all below it, as a folder."""
    left, right = _parts(a), _parts(b)
    if not _is_glob(left[-1:]):
        left = (*left, "**")
    if not _is_glob(right[-1:]):
        right = (*right, "**")
    return _meet(left, right, "**", _segments_meet)


@functools.lru_cache(maxsize=4096)
def _segments_meet(a: str, b: str) -> bool:
    """Whether one name can match both patterns; a bracket expression counts as any one character."""
    if not _is_glob((a,)) and not _is_glob((b,)):
        return a == b
    return _meet(_tokens(a), _tokens(b), "*", lambda x, y: "?" in (x, y) or x == y)


def _meet(left: Sequence[str], right: Sequence[str], star: str, one: Callable[[str, str], bool]) -> bool:
    """Whether two sequences of tokens have a common match: ``star`` stands for any number of items, others for one.

    A search over pairs of positions: O(left * right).
    """
    todo, seen = [(0, 0)], {(0, 0)}
    while todo:
        i, j = todo.pop()
        if i == len(left) and j == len(right):
            return True
        has_left, has_right = i < len(left), j < len(right)
        steps: list[tuple[int, int]] = []
        if has_left and left[i] == star:
            steps += [(i + 1, j), (i, j + 1)] if has_right else [(i + 1, j)]
        if has_right and right[j] == star:
            steps += [(i, j + 1), (i + 1, j)] if has_left else [(i, j + 1)]
        if has_left and has_right and star not in (left[i], right[j]) and one(left[i], right[j]):
            steps.append((i + 1, j + 1))
        for step in steps:
            if step not in seen:
                seen.add(step)
                todo.append(step)
    return False


def _tokens(pattern: str) -> list[str]:
    tokens: list[str] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        end = pattern.find("]", at + 2) if char == "[" else -1
        if end > 0:
            tokens.append("?")
            at = end + 1
            continue
        tokens.append(char)
        at += 1
    return tokens


@functools.lru_cache(maxsize=65536)
def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.replace("\\", "/").split("/") if part not in ("", "."))


def _is_glob(parts: Sequence[str]) -> bool:
    return any(char in _GLOB for part in parts for char in part)


def _fixed(path: str) -> tuple[str, ...]:
    kept: list[str] = []
    for part in _parts(path):
        if _is_glob((part,)):
            break
        kept.append(part)
    return tuple(kept)
