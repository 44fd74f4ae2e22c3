"""A public host cannot send a server or a gateway to its own network: the page's words are true."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import public_host

PAGE = Path(__file__).parents[2] / "docs" / "request-errors.md"
SECONDS = 120


def fetched(*paths: str) -> list[str]:
    """Return what becomes of the host's URLs, fetched beside it in a namespace of its own."""
    ours = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    command = ["unshare", *ours, "--net", sys.executable, public_host.__file__, *paths]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    if "unshare failed" in done.stderr:
        pytest.skip(f"no network namespaces here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.root
def test_a_redirect_to_a_private_address_is_refused() -> None:
    """Every hop is looked at; the public host itself is fetched from."""
    image, *refused = fetched("/photo.png", *public_host.REDIRECTS)
    assert image == public_host.IMAGE.decode()
    reported = {
        path: words.partition("resolves to an address that is not public ")[2].partition(";")[0]
        for path, words in zip(public_host.REDIRECTS, refused, strict=True)
    }
    assert reported == {
        "/private": "(private)",
        "/metadata": "(link-local, where clouds keep their metadata service)",
        "/loopback": "(loopback)",
        "/mapped": "(private)",
    }
    assert refused[0] in PAGE.read_text()
