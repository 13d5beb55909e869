"""An S3 server on loopback with a proxy in front that can misbehave, for tests of what lies behind URLs."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ERROR = "<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
CODES = {
    500: ("InternalError", "We encountered an internal error. Please try again."),
    503: ("SlowDown", "Please reduce your request rate."),
    507: ("InsufficientStorage", "There is no space left."),
    403: ("AccessDenied", "Access Denied"),
}


@dataclass(frozen=True)
class Request:
    """What was asked of the proxy."""

    number: int
    method: str
    path: str  # /bucket/key, without the query
    query: str
    conditional: bool  # If-None-Match: *


@dataclass(frozen=True)
class Trouble:
    """What goes wrong with a request.

    Attributes:
        status: the server is not asked; the answer is an error.
        drop: ``before`` the server is asked, ``after`` it has done it, or in the ``middle`` of the answer.
        delay_s: the answer comes late.
    """

    status: int = 0
    drop: str = ""
    delay_s: float = 0.0


class Proxy:
    """Hands requests on to a server; ``trouble`` says what goes wrong with which.

    Attributes:
        url: where it listens.
        log: all requests, and the status of their answers (0: none was given).
        sent_bytes: content of all answers.
    """

    def __init__(self, host: str, port: int):
        self.log: list[tuple[Request, int]] = []
        self.sent_bytes = 0
        self.trouble: Callable[[Request], Trouble | None] = lambda _: None
        self._lock = threading.Lock()
        self._number = 0
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except (ConnectionError, TimeoutError):  # of clients that were killed
                    self.close_connection = True

            def log_message(self, *_: Any) -> None:
                pass

            def _serve(self) -> None:
                path, _, query = self.path.partition("?")
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                request = Request(proxy._next(), self.command, path, query, self.headers.get("If-None-Match") == "*")
                trouble = proxy.trouble(request) or Trouble()
                time.sleep(trouble.delay_s)
                if trouble.drop == "before":
                    self._drop(request)
                elif trouble.status:
                    code, message = CODES[trouble.status]
                    content = b"" if self.command == "HEAD" else ERROR.format(code=code, message=message).encode()
                    self._answer(request, trouble.status, {"Content-Type": "application/xml"}, content)
                else:
                    self._forward(request, body, trouble)

            def _forward(self, request: Request, body: bytes, trouble: Trouble) -> None:
                server = http.client.HTTPConnection(host, port, timeout=60)
                headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
                server.request(self.command, self.path, body, headers)
                answer = server.getresponse()
                content = answer.read()
                server.close()
                if trouble.drop == "after":
                    self._drop(request)
                    return
                skipped = ("connection", "transfer-encoding", "content-length", "date", "server")
                kept = {name: value for name, value in answer.getheaders() if name.lower() not in skipped}
                length = int(answer.headers.get("Content-Length", len(content)))
                if trouble.drop == "middle" and content:
                    self._answer(request, answer.status, kept, content[: len(content) // 2], length)
                    self._drop(None)
                else:
                    self._answer(request, answer.status, kept, content, length)

            def _answer(
                self,
                request: Request,
                status: int,
                headers: dict[str, str],
                content: bytes,
                length: int | None = None,
            ) -> None:
                proxy.log.append((request, status))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                if status != 204:
                    self.send_header("Content-Length", str(len(content) if length is None else length))
                self.end_headers()
                if self.command != "HEAD":
                    proxy.sent_bytes += len(content)
                    self.wfile.write(content)

            def _drop(self, request: Request | None) -> None:
                if request is not None:
                    proxy.log.append((request, 0))
                self.close_connection = True

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _serve  # noqa: N815

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def _next(self) -> int:
        with self._lock:
            self._number += 1
            return self._number

    def asked(self, method: str, end: str = "") -> list[tuple[Request, int]]:
        """Requests of a method whose path ends so."""
        return [
            (request, status) for request, status in self.log if request.method == method and request.path.endswith(end)
        ]

    def reset(self) -> None:
        """Forget all requests, and let all go well."""
        self.log.clear()
        self.trouble = lambda _: None

    def stop(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()
