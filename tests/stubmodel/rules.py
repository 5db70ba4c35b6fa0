"""What the stub answers: rules, or a scripted agent's file turned into rules; and how far a conversation is."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from droveway.agents.script import Call, Entry, NoEntryError, Step, call_of_prompt, find, load_script

DONE = "herd-step-done"


@dataclass(frozen=True)
class Item:
    """One piece of a conversation: ``kind`` is user or result (of a tool)."""

    kind: str
    text: str


@dataclass(frozen=True)
class ToolCall:
    """A call to answer with: a shell command, or a named tool with its arguments."""

    command: str = ""
    name: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """One answer: a tool call, a text, or an HTTP error; or none at all, for ever."""

    text: str = ""
    call: ToolCall | None = None
    status: int = 200
    hang: bool = False


@dataclass(frozen=True)
class Rule:
    prompt_has: tuple[str, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    say: str = "The stub model has nothing more to do here."
    status: int = 200
    message: str = ""
    hang: bool = False
    checked: bool = False  # a call's result must hold DONE, or the conversation ends there

    def answer(self, results: list[str]) -> Answer:
        done = len(results)
        if self.checked and results and DONE not in results[-1]:
            return Answer(text=f"A step failed: {results[-1][-500:]}", status=200)
        if done < len(self.calls):
            return Answer(call=self.calls[done])
        if self.hang:
            return Answer(hang=True)
        if self.status != 200:
            return Answer(text=self.message or "refused by a rule", status=self.status)
        return Answer(text=self.say)


class Rules:
    """Answers by a list of rules."""

    def __init__(self, rules: list[Rule]) -> None:
        self.rules = rules

    @classmethod
    def load(cls, path: Path) -> Rules:
        return cls([_rule(raw) for raw in yaml.safe_load(path.read_text(encoding="utf-8"))])

    def answer(self, items: list[Item]) -> Answer:
        prompt = "\n".join(item.text for item in items if item.kind == "user")
        for rule in self.rules:
            if all(part in prompt for part in rule.prompt_has):
                return rule.answer([item.text for item in items if item.kind == "result"])
        return Answer(text="no rule of the stub model matches the prompt", status=400)


class Script:
    """Answers by a scripted agent's file; the call is read from the header lines of the conversation's last prompt."""

    def __init__(self, entries: tuple[Entry, ...]) -> None:
        self.entries = entries

    @classmethod
    def load(cls, path: Path) -> Script:
        return cls(load_script(path))

    def answer(self, items: list[Item]) -> Answer:
        at, call = self._call(items)
        try:
            rule = rule_of(find(self.entries, call))
        except NoEntryError as error:
            return Answer(text=str(error), status=400)
        return rule.answer([item.text for item in items[at:] if item.kind == "result"])

    def _call(self, items: list[Item]) -> tuple[int, Call]:
        for at in range(len(items) - 1, -1, -1):
            if items[at].kind == "user" and (call := call_of_prompt(items[at].text)).role:
                return at, call
        return 0, call_of_prompt("\n".join(item.text for item in items if item.kind == "user"))


def rule_of(entry: Entry) -> Rule:
    """Turn an entry into a rule: its steps are one shell script, up to a ``crash``, which is an HTTP error."""
    steps: list[Step] = []
    for step in entry.steps:
        if step.kind == "crash":
            return Rule(calls=_shell(steps), status=400, message=f"the script crashes with {step.code}", checked=True)
        steps.append(step)
    return Rule(calls=_shell(steps), say=entry.say, checked=True)


def _shell(steps: list[Step]) -> tuple[ToolCall, ...]:
    if not steps:
        return ()
    lines = ["set -e", *(_line(step) for step in steps), f"echo {DONE}"]
    return (ToolCall(command="\n".join(lines)),)


def _line(step: Step) -> str:
    path, quote = shlex.quote(step.path), shlex.quote
    folder = f"mkdir -p {quote(str(Path(step.path).parent))}"
    match step.kind:
        case "write":
            return f"{folder}\nprintf %s {quote(step.text)} > {path}"
        case "append":
            return f"{folder}\nprintf %s {quote(step.text)} >> {path}"
        case "replace":
            program = (
                "import sys,pathlib; p=pathlib.Path(sys.argv[1]); t=p.read_text(); "
                "assert sys.argv[2] in t, 'nothing to replace'; p.write_text(t.replace(sys.argv[2], sys.argv[3], 1))"
            )
            return f"python3 -c {quote(program)} {path} {quote(step.old)} {quote(step.new)}"
        case "run":
            return shlex.join(step.argv)
        case "commit":
            return f"git add -A\ngit diff --cached --quiet || git commit -q -m {quote(step.message)}"
        case "push":
            return "git push -q origin HEAD"
        case "sleep":
            return f"sleep {step.seconds}"
    raise AssertionError(step.kind)


def _rule(raw: dict[str, Any]) -> Rule:
    has = raw.get("prompt_has", [])
    calls = tuple(
        ToolCall(command=call) if isinstance(call, str) else ToolCall(**call) for call in raw.get("calls", [])
    )
    rest = {key: raw[key] for key in ("say", "status", "message", "hang") if key in raw}
    return Rule(prompt_has=(has,) if isinstance(has, str) else tuple(has), calls=calls, **rest)
