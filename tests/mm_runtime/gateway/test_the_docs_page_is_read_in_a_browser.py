"""`/docs` in a real browser: limits of the model, requests, and examples that are sent as shown."""

import asyncio
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from support.browser import tab_of
from support.gateways import MODEL, serve, toy_gateway
from support.images import data_url, encode, plain_image
from support.scripted_engine import ScriptedEngine

pytestmark = pytest.mark.root  # installs the browser where it is missing
IMAGE = data_url(encode(plain_image()))
EXAMPLE = "https://example.org/cat.jpg"


async def test_examples_are_sent_as_shown(tmp_path: Path) -> None:
    """The token is typed; without it the page shows why, and nothing of the model."""
    tokens = tmp_path / "tokens"
    tokens.write_text("sk-a\n")
    gateway = toy_gateway(tmp_path / "engine", ScriptedEngine(), auth_token_file=tokens)
    async with (
        serve(gateway) as running,
        tab_of(f"{running.url}/docs", tmp_path / "browser") as tab,
    ):
        await tab.wait("document.querySelector('#problem').textContent")
        assert MODEL not in await tab.eval("document.body.innerText")
        assert "401" in tab.failures.pop()
        await tab.eval("document.querySelector('#token').focus()")
        await tab.send("Input.insertText", text="sk-a")
        await tab.press("Enter", 13, "\r")
        await tab.wait("document.querySelectorAll('section').length > 3")
        await tab.looks_well()
        titles = "[...document.querySelectorAll('h2')].map((one) => one.textContent)"
        limits, first, *_ = await tab.eval(titles)
        chat = "document.querySelector('section:nth-of-type(2)')"
        await tab.eval(f"{chat}.querySelector('button').click()")
        await tab.wait(f"{chat}.querySelector('button').innerText === 'Copied'")
        texts = f"[...{chat}.querySelectorAll('pre')].map((one) => one.innerText)"
        curl, code = await tab.eval(texts)
        said: list[Any] = []
        program = code.replace("TOKEN", "sk-a").replace(EXAMPLE, IMAGE)
        await asyncio.to_thread(exec, program, {"print": said.append})
        shown = await tab.eval("document.querySelector('section table').innerText")

    assert (limits, first) == ("Limits", "POST /v1/chat/completions")
    assert "promptAndAnswerTokens\t320" in shown
    assert [type(one) for one in said] == [str]
    words = shlex.split(curl)
    sent = json.loads(words[words.index("-d") + 1])
    assert (sent["model"], words[1]) == (MODEL, f"{running.url}/v1/chat/completions")
    assert tab.failures == []
