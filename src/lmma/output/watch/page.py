"""The page: one HTML file without anything from elsewhere; texts from logs enter it as data only."""

from __future__ import annotations

import html
import json
from functools import lru_cache
from pathlib import Path
from typing import Any


def page(title: str, nonce: str, data: dict[str, Any] | None = None) -> str:
    """Return the page, with ``data`` inside, to be mailed, or without, to ask for it again and again."""
    held = ""
    if data is not None:
        held = f'<script type="application/json" id="data">{as_json(data)}</script>'
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
{held}<script nonce="{nonce}">{_file("chart.js")}</script><script nonce="{nonce}">{_file("page.js")}</script>
</body></html>
"""


def as_json(value: Any) -> str:
    """Return JSON that cannot end the element it stands in."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@lru_cache
def _file(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _escaped(text: str) -> str:
    return html.escape("".join(sign if sign.isprintable() else "?" for sign in text))
