"""The page `/docs`, one file: it reads `openapi.json` as any client, with the token of its reader.

It holds nothing of the model, so everyone may load it; its policy lets a browser run its script
alone, and send nothing to other hosts.
"""

import base64
import hashlib
import re
from functools import cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import HTMLResponse


async def docs_page(_: Request) -> HTMLResponse:
    return HTMLResponse(*_page())


@cache
def _page() -> tuple[str, int, dict[str, str]]:
    text = Path(__file__).with_name("docs.html").read_text(encoding="utf-8")
    found = dict(re.findall(r"<(script|style)>(.*?)</\1>", text, re.DOTALL))
    hashed = {name: hashlib.sha256(part.encode()).digest() for name, part in found.items()}
    allowed = [
        f"{name}-src 'sha256-{base64.b64encode(one).decode()}'" for name, one in hashed.items()
    ]
    policy = ["default-src 'none'", *allowed, "connect-src 'self'", "img-src data:"]
    policy += ["base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"]
    return (
        text,
        200,
        {
            "content-security-policy": "; ".join(policy),
            "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer",
        },
    )
