"""A real browser without a window: Debian's headless Chromium, driven by its DevTools Protocol."""

import asyncio
import itertools
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any

import aiohttp

from mm_devcluster.packages import Package, install
from support.eventually import eventually_async

PACKAGE = Package("chromium-headless-shell", "chromium-headless-shell", "opens pages of tests")
OVERFLOW = """[document.documentElement, ...document.querySelectorAll("section")].some(
  (one) => one.scrollWidth > one.clientWidth)"""
CONTRAST = r"""(() => {
  const part = (one) => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4;
  const light = (text) => {
    const [r, g, b] = text.match(/[\d.]+/g).map((one) => part(one / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
  };
  const behind = (one) => {
    const found = getComputedStyle(one).backgroundColor;
    return / 0\)$/.test(found) ? behind(one.parentElement) : found;
  };
  const texts = [...document.querySelectorAll("h1,h2,a,td,th,li,p,pre,label,figcaption,summary")];
  return Math.min(...texts.filter((one) => one.innerText).map((one) => {
    const [a, b] = [light(getComputedStyle(one).color), light(behind(one))];
    return Math.max(a, b) / Math.min(a, b);
  }));
})()"""
"""The lowest contrast of a text, as WCAG counts it."""


class Tab:
    """One page; `failures` has what its console and its policy complained of."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket, self._numbers = socket, itertools.count(1)
        self.failures: list[str] = []

    async def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command of the protocol and return its result."""
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        while (message := await self._socket.receive_json(timeout=60)).get("id") != number:
            if message["method"] in {"Runtime.exceptionThrown", "Log.entryAdded"}:
                self.failures.append(json.dumps(message["params"]))
        assert "error" not in message, message
        return dict(message["result"])

    async def eval(self, script: str) -> Any:
        found = await self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    async def wait(self, script: str) -> None:
        """Return when a script's value holds."""
        await eventually_async(lambda: self.eval(script))

    async def look(self, width: int, scheme: str = "light") -> None:
        """Take a width in CSS pixels, and light or dark."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        await self.send("Emulation.setDeviceMetricsOverride", **size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.send("Emulation.setEmulatedMedia", features=features)

    async def looks_well(self) -> None:
        """Narrow and wide, light and dark: nothing is cut off, and texts have WCAG's contrast."""
        for width, scheme in product((400, 700, 1400), ("light", "dark")):
            await self.look(width, scheme)
            assert not await self.eval(OVERFLOW), width
            assert await self.eval(CONTRAST) >= 4.5, scheme

    async def press(self, key: str, code: int, text: str = "") -> None:
        for kind in ("keyDown", "keyUp"):
            named = {"key": key, "code": key, "windowsVirtualKeyCode": code}
            named |= {"text": text} if text and kind == "keyDown" else {}
            await self.send("Input.dispatchKeyEvent", type=kind, **named)

    async def choose(self, selector: str, file: Path) -> None:
        """Take a file in an input of type file."""
        root = (await self.send("DOM.getDocument"))["root"]["nodeId"]
        node = (await self.send("DOM.querySelector", nodeId=root, selector=selector))["nodeId"]
        await self.send("DOM.setFileInputFiles", files=[str(file)], nodeId=node)


@asynccontextmanager
async def tab_of(address: str, folder: Path) -> AsyncIterator[Tab]:
    """Open an address in a browser of its own, which keeps its files in a folder."""
    install((PACKAGE,))
    words = [PACKAGE.program, "--no-sandbox", "--remote-debugging-port=0"]
    words += [f"--user-data-dir={folder}", "--hide-scrollbars", "about:blank"]
    quiet = asyncio.subprocess.DEVNULL
    browser = await asyncio.create_subprocess_exec(
        *words, stdout=quiet, stderr=quiet, start_new_session=True
    )
    ports = folder / "DevToolsActivePort"
    try:
        await eventually_async(lambda: "\n" in ports.read_text())
        port, *_ = ports.read_text().split()
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            (page,) = await (await session.get("/json/list")).json()
            async with session.ws_connect(page["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                tab = Tab(socket)
                for name in ("Runtime", "Log", "Page", "DOM"):
                    await tab.send(f"{name}.enable")
                await tab.send("Page.navigate", url=address)
                yield tab
                await tab.send("Browser.close")  # its other processes, too, before the folder goes
    finally:
        if browser.returncode is None:  # Debian's program is a script that waits for the browser
            os.killpg(browser.pid, signal.SIGTERM)
        await browser.wait()
