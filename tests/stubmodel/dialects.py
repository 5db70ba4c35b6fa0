"""The four protocols: how a conversation is read, and how an answer is written, whole or as a stream of events."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

from .rules import Answer, Item, ToolCall

SHELLS = ("exec_command", "shell_command", "shell", "container.exec", "Bash", "bash", "run_shell_command", "execute")
Event = tuple[str | None, Any]  # name of the event, data


def texts(content: Any) -> str:
    """Join the text parts of a message's content, whatever the protocol calls them."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        return texts(content.get("text") or content.get("content") or content.get("output") or "")
    if isinstance(content, list):
        return "\n".join(filter(None, (texts(part) for part in content)))
    return ""


def fill(call: ToolCall, tools: dict[str, dict[str, Any]]) -> tuple[str, dict[str, Any]] | None:
    """Give name and arguments of a call for the tools that the agent offers; None where it offers no fitting one."""
    if call.name:
        return (call.name, call.arguments) if call.name in tools else None
    name = next((shell for shell in SHELLS if shell in tools), None)
    if name is None:
        return None
    schema = tools[name]
    properties = schema.get("properties", {})
    arguments: dict[str, Any] = {}
    for key in schema.get("required", []):
        kind = properties.get(key, {}).get("type")
        arguments[key] = {"boolean": False, "number": 0, "integer": 0, "array": []}.get(kind, "play the script")
    key = next((key for key in ("command", "cmd", "script") if key in properties), "command")
    as_list = properties.get(key, {}).get("type") == "array"
    arguments[key] = ["sh", "-c", call.command] if as_list else call.command
    waits = {"yield_time_ms": 30000, "timeout_ms": 60000, "timeout": 60000}
    return name, arguments | {key: value for key, value in waits.items() if key in properties}


class Dialect:
    """One protocol."""

    def items(self, body: dict[str, Any]) -> list[Item]:
        raise NotImplementedError

    def tools(self, body: dict[str, Any]) -> dict[str, dict[str, Any]]:
        raise NotImplementedError

    def whole(self, body: dict[str, Any], text: str, call: tuple[str, dict[str, Any]] | None) -> dict[str, Any]:
        raise NotImplementedError

    def stream(self, body: dict[str, Any], text: str, call: tuple[str, dict[str, Any]] | None) -> Iterator[Event]:
        raise NotImplementedError

    def error(self, answer: Answer) -> dict[str, Any]:
        kind = {401: "authentication_error", 429: "rate_limit_error"}.get(answer.status, "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "code": kind, "message": answer.text}}


class Chat(Dialect):
    """``/v1/chat/completions``."""

    def items(self, body: dict[str, Any]) -> list[Item]:
        kinds = {"user": "user", "tool": "result"}
        return [Item(kinds[m["role"]], texts(m.get("content"))) for m in body["messages"] if m["role"] in kinds]

    def tools(self, body: dict[str, Any]) -> dict[str, dict[str, Any]]:
        return {t["function"]["name"]: t["function"].get("parameters") or {} for t in body.get("tools") or []}

    def _message(self, text: str, call: tuple[str, dict[str, Any]] | None) -> dict[str, Any]:
        if call is None:
            return {"role": "assistant", "content": text}
        function = {"name": call[0], "arguments": json.dumps(call[1])}
        return {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"index": 0, "id": f"call_{uuid.uuid4().hex}", "type": "function", "function": function}],
        }

    def _frame(self, body: dict[str, Any], kind: str) -> dict[str, Any]:
        return {"id": f"chatcmpl-{uuid.uuid4().hex}", "object": kind, "created": 1, "model": body.get("model", "stub")}

    _usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}  # noqa: RUF012

    def whole(self, body: dict[str, Any], text: str, call: tuple[str, dict[str, Any]] | None) -> dict[str, Any]:
        choice = {"index": 0, "message": self._message(text, call), "finish_reason": "tool_calls" if call else "stop"}
        return {**self._frame(body, "chat.completion"), "choices": [choice], "usage": self._usage}

    def stream(self, body: dict[str, Any], text: str, call: tuple[str, dict[str, Any]] | None) -> Iterator[Event]:
        frame = self._frame(body, "chat.completion.chunk")
        reason = "tool_calls" if call else "stop"
        yield None, {**frame, "choices": [{"index": 0, "delta": self._message(text, call), "finish_reason": None}]}
        yield None, {**frame, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": self._usage}
        yield None, "[DONE]"


class Responses(Dialect):
    """``/v1/responses``."""

    def items(self, body: dict[str, Any]) -> list[Item]:
        if isinstance(body["input"], str):
            return [Item("user", body["input"])]
        found = []
        for item in body["input"]:
            if item.get("role") == "user":
                found.append(Item("user", texts(item.get("content"))))
            elif str(item.get("type")).endswith("_call_output"):
                found.append(Item("result", texts(item.get("output"))))
        return found

    def tools(self, body: dict[str, Any]) -> dict[str, dict[str, Any]]:
        listed = body.get("tools") or []
        return {t["name"]: t.get("parameters") or {} for t in listed if t.get("type") == "function"}

    def _output(self, text: str, call: tuple[str, dict[str, Any]] | None) -> dict[str, Any]:
        mark = uuid.uuid4().hex
        if call is not None:
            head = {"type": "function_call", "id": f"fc_{mark}", "call_id": f"call_{mark}", "status": "completed"}
            return {**head, "name": call[0], "arguments": json.dumps(call[1])}
        content = [{"type": "output_text", "text": text, "annotations": []}]
        return {"type": "message", "id": f"msg_{mark}", "role": "assistant", "status": "completed", "content": content}

    def _response(self, body: dict[str, Any], status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
        usage = {
            "input_tokens": 11,
            "input_tokens_details": {"cached_tokens": 3},
            "output_tokens": 7,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 18,
        }
        head = {"id": f"resp_{uuid.uuid4().hex}", "object": "response", "created_at": 1, "model": body.get("model")}
        return {**head, "status": status, "output": output, "usage": usage if status == "completed" else None}

    def whole(self, body: dict[str, Any], text: str, call: tuple[str, dict[str, Any]] | None) -> dict[str, Any]:
        return self._response(body, "completed", [self._output(text, call)])

    def stream(self, body: dict[str, Any], text: str, call: tuple[str, dict[str, Any]] | None) -> Iterator[Event]:
        item = self._output(text, call)
        events: list[dict[str, Any]] = [
            {"type": "response.created", "response": self._response(body, "in_progress", [])},
            {"type": "response.output_item.added", "output_index": 0, "item": {**item, "status": "in_progress"}},
        ]
        if call is None:
            where = {"item_id": item["id"], "output_index": 0, "content_index": 0}
            events.append({"type": "response.output_text.delta", **where, "delta": text})
        events += [
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": self._response(body, "completed", [item])},
        ]
        for number, event in enumerate(events):
            yield event["type"], {**event, "sequence_number": number}


class Messages(Dialect):
    """``/v1/messages``."""

    def items(self, body: dict[str, Any]) -> list[Item]:
        found = []
        for message in body["messages"]:
            if message["role"] != "user":
                continue
            content = message["content"]
            for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
                if part.get("type") == "tool_result":
                    found.append(Item("result", texts(part.get("content"))))
                elif part.get("type") == "text":
                    found.append(Item("user", part["text"]))
        return found

    def tools(self, body: dict[str, Any]) -> dict[str, dict[str, Any]]:
        return {t["name"]: t.get("input_schema") or {} for t in body.get("tools") or []}

    def _block(self, text: str, call: tuple[str, dict[str, Any]] | None) -> dict[str, Any]:
        if call is None:
            return {"type": "text", "text": text}
        return {"type": "tool_use", "id": f"toolu_{uuid.uuid4().hex}", "name": call[0], "input": call[1]}

    def _message(self, body: dict[str, Any]) -> dict[str, Any]:
        usage = {"input_tokens": 11, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 0, "output_tokens": 7}
        head = {"id": f"msg_{uuid.uuid4().hex}", "type": "message", "role": "assistant", "model": body.get("model")}
        return {**head, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}

    def whole(self, body: dict[str, Any], text: str, call: tuple[str, dict[str, Any]] | None) -> dict[str, Any]:
        reason = "tool_use" if call else "end_turn"
        return {**self._message(body), "content": [self._block(text, call)], "stop_reason": reason}

    def stream(self, body: dict[str, Any], text: str, call: tuple[str, dict[str, Any]] | None) -> Iterator[Event]:
        block = self._block(text, call)
        empty = {**block, "input": {}} if call else {**block, "text": ""}
        delta = (
            {"type": "input_json_delta", "partial_json": json.dumps(call[1])}
            if call
            else {"type": "text_delta", "text": text}
        )
        end = {"stop_reason": "tool_use" if call else "end_turn", "stop_sequence": None}
        for event in (
            {"type": "message_start", "message": self._message(body)},
            {"type": "content_block_start", "index": 0, "content_block": empty},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": end, "usage": {"output_tokens": 7}},
            {"type": "message_stop"},
        ):
            yield str(event["type"]), event


class Generate(Dialect):
    """``:generateContent`` and ``:streamGenerateContent``."""

    def items(self, body: dict[str, Any]) -> list[Item]:
        found = []
        for content in body["contents"]:
            for part in content.get("parts") or []:
                if "functionResponse" in part:
                    found.append(Item("result", json.dumps(part["functionResponse"].get("response"))))
                elif content.get("role") == "user" and "text" in part:
                    found.append(Item("user", part["text"]))
        return found

    def tools(self, body: dict[str, Any]) -> dict[str, dict[str, Any]]:
        declared = [f for t in body.get("tools") or [] for f in t.get("functionDeclarations") or []]
        return {f["name"]: f.get("parametersJsonSchema") or f.get("parameters") or {} for f in declared}

    def whole(self, body: dict[str, Any], text: str, call: tuple[str, dict[str, Any]] | None) -> dict[str, Any]:
        part = {"functionCall": {"name": call[0], "args": call[1]}} if call else {"text": text}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        usage = {"promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18}
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "stub"}

    def stream(self, body: dict[str, Any], text: str, call: tuple[str, dict[str, Any]] | None) -> Iterator[Event]:
        yield None, self.whole(body, text, call)

    def error(self, answer: Answer) -> dict[str, Any]:
        status = {401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED"}.get(answer.status, "INVALID_ARGUMENT")
        return {"error": {"code": answer.status, "message": answer.text, "status": status}}
