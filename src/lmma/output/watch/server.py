"""Web server of the live page: two paths, no files, loopback only."""

from __future__ import annotations

import html
import json
import secrets
import sys
import threading
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from lmma.output.watch.follow import Logs

HOST = "127.0.0.1"


class WatchServer(ThreadingHTTPServer):
    """Serves the page at ``/`` and the thinned logs at ``/data``; all other paths return 404.

    Requests need the token that is part of the address: other users of the machine can reach the port, but
    may not be allowed to read the logs.
    """

    daemon_threads = True

    def __init__(self, logs: Logs, title: str, port: int = 0) -> None:
        self.logs, self.title = logs, title
        self.token = secrets.token_urlsafe(24)
        self.reading = threading.Lock()
        super().__init__((HOST, port), _Handler)

    @property
    def address(self) -> str:
        """The URL of the page, with its token."""
        return f"http://{HOST}:{self.server_port}/?token={self.token}"

    def data(self) -> dict[str, Any]:
        """Return the current contents of the logs."""
        with self.reading:
            return self.logs.data()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that close the connection before the answer is complete."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: WatchServer
    server_version, sys_version = "lmma", ""
    timeout = 30

    def do_GET(self) -> None:
        # against DNS rebinding: a page of another site sends that site's name as Host
        if self.headers.get("Host") not in (
            f"{HOST}:{self.server.server_port}", f"localhost:{self.server.server_port}",
        ):  # fmt: skip
            self.send_error(403)
            return
        path, _, query = self.path.partition("?")
        if not secrets.compare_digest(query.encode(), f"token={self.server.token}".encode()):
            self.send_error(403, explain="Open the address that lmma watch printed, including its token.")
        elif path == "/":
            self._answer("text/html", page(self.server.title, secrets.token_urlsafe(16)))
        elif path == "/data":
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
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Suppress the request log, which would fill the user's terminal."""


def page(title: str, nonce: str, data: dict[str, Any] | None = None) -> str:
    """Return the page: self-contained if ``data`` is given, otherwise polling ``/data``."""
    embed = ""
    if data is not None:
        embed = f'<script type="application/json" id="data">{as_json(data)}</script>'
    policy = (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{_escaped(title)}</title>
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">
<style nonce="{nonce}">{_file("page.css")}</style></head>
<body><header><h1>{_escaped(title)}</h1><p id="state" role="status"></p><nav id="tools"></nav></header>
<section id="table" aria-label="Runs"></section><p id="note"></p><main id="panels"></main>
<section id="details" aria-label="Variables"></section><footer id="keys"></footer>
{embed}<script nonce="{nonce}">{_file("chart.js")}</script><script nonce="{nonce}">{_file("page.js")}</script>
</body></html>
"""


def as_json(value: Any) -> str:
    """Return JSON escaped for embedding in a script element."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@lru_cache
def _file(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _escaped(text: str) -> str:
    return html.escape("".join(char if char.isprintable() else "?" for char in text))
