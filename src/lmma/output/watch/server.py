"""The page served to this machine: two addresses, no files, loopback only."""

from __future__ import annotations

import secrets
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from lmma.output.watch.follow import Logs
from lmma.output.watch.page import as_json, page

HOST = "127.0.0.1"


class WatchServer(ThreadingHTTPServer):
    """Serves the page at ``/`` and the logs, thinned, at ``/data``; everything else is not found."""

    daemon_threads = True

    def __init__(self, logs: Logs, title: str, port: int = 0) -> None:
        self.logs, self.title = logs, title
        self.reading = threading.Lock()
        super().__init__((HOST, port), _Handler)

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://{HOST}:{self.server_port}/"

    def data(self) -> dict[str, Any]:
        """Return the logs as they are now."""
        with self.reading:
            return self.logs.data()


class _Handler(BaseHTTPRequestHandler):
    server: WatchServer
    server_version, sys_version = "lmma", ""
    timeout = 30

    def do_GET(self) -> None:
        # another site's name may be made to lead here; its pages then send that name
        if self.headers.get("Host") not in (
            f"{HOST}:{self.server.server_port}", f"localhost:{self.server.server_port}",
        ):  # fmt: skip
            self.send_error(403)
        elif self.path == "/":
            self._answer("text/html", page(self.server.title, secrets.token_urlsafe(16)))
        elif self.path == "/data":
            self._answer("application/json", as_json(self.server.data()))
        else:
            self.send_error(404)

    def _answer(self, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the terminal is the user's."""
