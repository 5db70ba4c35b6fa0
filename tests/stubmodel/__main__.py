"""Run the server until it is told to stop."""

from __future__ import annotations

import argparse
import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from .dialects import Chat, Dialect, Generate, Messages, Responses, fill
from .rules import Answer, Rules, Script


def dialect_of(path: str) -> Dialect | None:
    if path.endswith("/chat/completions"):
        return Chat()
    if path.endswith("/responses"):
        return Responses()
    if path.endswith("/messages"):
        return Messages()
    if path.endswith(("generateContent", "streamGenerateContent")):
        return Generate()
    return None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    brain: Rules | Script
    log: Path | None = None
    lock = threading.Lock()

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        if "/models" in self.path:
            models = [{"id": "stub", "object": "model", "type": "model", "display_name": "stub", "created": 1}]
            self._json(200, {"object": "list", "data": models, "models": []})
        else:
            self._json(200, {})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        path, _, query = self.path.partition("?")
        try:
            body = json.loads(raw or b"{}")
        except ValueError:
            body = {}
        if self.log is not None:
            with self.lock, self.log.open("a", encoding="utf-8") as handle:
                handle.write(json.dumps({"path": self.path, "body": body}) + "\n")
        if path.endswith(("count_tokens", ":countTokens")):
            self._json(200, {"input_tokens": 11, "totalTokens": 11})
            return
        dialect = dialect_of(path)
        if dialect is None:
            self._json(404, {"error": {"message": f"the stub model does not speak {path}"}})
            return
        answer = self.brain.answer(dialect.items(body))
        if answer.hang:
            threading.Event().wait()
        if answer.status != 200:
            self._json(answer.status, dialect.error(answer))
            return
        self._answer(
            dialect,
            body,
            answer,
            streaming=bool(body.get("stream")) or "streamGenerate" in path,
            sse="alt=sse" in query,
        )

    def _answer(self, dialect: Dialect, body: dict[str, Any], answer: Answer, *, streaming: bool, sse: bool) -> None:
        call = fill(answer.call, dialect.tools(body)) if answer.call else None
        text = answer.text
        if answer.call and call is None:
            text = "The tool that the stub model wants is not offered here."
        if not streaming or (isinstance(dialect, Generate) and not sse):
            whole = dialect.whole(body, text, call)
            self._json(200, [whole] if streaming else whole)
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("cache-control", "no-cache")
        self.send_header("connection", "close")
        self.end_headers()
        for name, data in dialect.stream(body, text, call):
            head = f"event: {name}\n" if name else ""
            payload = data if isinstance(data, str) else json.dumps(data)
            self.wfile.write(f"{head}data: {payload}\n\n".encode())
            self.wfile.flush()
        self.close_connection = True

    def _json(self, status: int, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        return


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        return  # an agent that is killed hangs up in the middle


def main() -> None:
    parser = argparse.ArgumentParser(prog="stubmodel")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--script", type=Path)
    what.add_argument("--rules", type=Path)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--ready", type=Path)
    parser.add_argument("--log", type=Path)
    options = parser.parse_args()
    Handler.brain = Script.load(options.script) if options.script else Rules.load(options.rules)
    Handler.log = options.log
    with Server(("127.0.0.1", options.port), Handler) as server:
        address = f"http://127.0.0.1:{server.server_port}"
        if options.ready:
            options.ready.with_suffix(".new").write_text(address, encoding="utf-8")
            os.replace(options.ready.with_suffix(".new"), options.ready)
        else:
            print(address, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
