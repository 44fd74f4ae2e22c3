"""`mmctl ask` in place of NVIDIA's client.py: the commands of its guide, on a real pair."""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from mm_ctl.cli import main
from support.cases import cases
from support.families.served import Servers
from support.images import data_url
from support.real_gateway import gateway_before
from support.served import Served
from support.tiny_llava import IMAGES, BuiltEngine
from support.videos import video

pytestmark = [pytest.mark.triton, pytest.mark.timeout(600)]

RED, GREEN = str(IMAGES / "red-square.png"), str(IMAGES / "big-green-triangle.png")
WHAT = ("--text", "What is in the image?", "--request-output-len", "16", "--image")
SECOND = ("--text", "What is in the second image?", "--image", f"{RED},{GREEN}")
IS_RED = "[beam 0 ]:\na red square\n"
KUBECONFIG = """\
current-context: here
contexts: [{name: here, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
"""
KUBECTL = """#!{python}
import sys, time
open({seen!r}, "w").write(" ".join(sys.argv[1:]))
print({line!r}, flush=True)
time.sleep({seconds})
"""


@dataclass(frozen=True)
class Pod:
    """Addresses of a gateway and its Triton."""

    model: str
    url: str
    triton: str


@pytest.fixture(scope="module")
def real(
    built_engine: BuiltEngine, served: Served, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pod]:
    folder = tmp_path_factory.mktemp("queried")
    with gateway_before(built_engine, served.grpc_url, folder) as url:
        yield Pod("tiny", url, served.http_url)


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    code, shown = main(["ask", *words]), capsys.readouterr()
    assert (code, shown.err) == (0, "")
    return re.sub(r"\[INFO\] Latency: [\d.]+ ms\n$", "", shown.out)


@cases(
    "protocol words expected",
    {
        "1": ("triton", (*WHAT, RED), IS_RED),
        "2": ("triton", (*WHAT, RED, "--streaming"), "a red square"),
        "3": ("bls", (*WHAT, RED), IS_RED),
        "4": ("bls", (*WHAT, RED, "--streaming"), "a red square"),
        "5": ("triton", (*WHAT, RED, "--prompt_table_extra_id", "7"), IS_RED),
        "6": ("triton", SECOND, "[beam 0 ]:\na green triangle\n"),
        "7": ("triton", (*WHAT, data_url(Path(RED).read_bytes()), "--top_p", "0"), IS_RED),
        "openai": ("openai", (*WHAT, RED), IS_RED),
        "openai, streamed": ("openai", (*SECOND, "--streaming"), "a green triangle"),
    },
)
def test_the_guides_commands(
    real: Pod,
    capsys: pytest.CaptureFixture[str],
    protocol: str,
    words: tuple[str, ...],
    expected: str,
) -> None:
    """By their numbers in its section on requests; each prints what client.py prints."""
    address = real.url if protocol == "openai" else real.triton
    to = (real.model, "--protocol", protocol, "--address", address)
    printed = said(capsys, *to, "--latency", *words)
    if "--streaming" in words:
        pieces = re.findall(r"^\[beam 0 \]:  (.*)$", printed, re.MULTILINE)
        assert "".join(pieces) == expected  # in as many as a busy server has at a time
        assert said(capsys, *to, *words) == f"{expected}\n"
    else:
        assert printed == expected


def test_the_eighth(servers: Servers, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A video, of which frames are chosen by number or by rate."""
    clip, served = tmp_path / "clip.mp4", servers.of("qwen2-vl").pair
    clip.write_bytes(video(50))
    capsys.readouterr()  # what was written while the server was made
    to = (served.model, "--address", served.url, "--text", "Why is this video funny?")
    for frames in (("--video_num_frames", "2"), ("--fps", "1")):
        assert said(capsys, *to, "--video", str(clip), "--end-id", "5", *frames).strip()


def test_pods_are_reached(
    real: Pod,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By kubectl, which ends with the command; what it says when it cannot is the message."""
    program, seen = tmp_path / "kubectl", tmp_path / "seen"
    monkeypatch.setenv("PATH", str(tmp_path))
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(KUBECONFIG)
    query = (real.model, *WHAT, RED, "-n", "a", "--kubeconfig", str(kubeconfig))
    assert main(["ask", *query]) == 2
    assert "there is no kubectl" in capsys.readouterr().err
    for protocol, url, port in (("openai", real.url, 8080), ("triton", real.triton, 8000)):
        to = f"port-forward deployment/{real.model} :{port} --namespace=a --kubeconfig={kubeconfig}"
        line = f"Forwarding from {url.removeprefix('http://')} -> {port}"
        for said_first, seconds in ((line, 600), ("error: no pod", 0)):
            text = {"python": sys.executable, "seen": str(seen), "line": said_first}
            program.write_text(KUBECTL.format(**text, seconds=seconds))
            program.chmod(0o755)
            if seconds:
                assert said(capsys, *query, "--protocol", protocol) == "a red square\n"
        assert main(["ask", *query, "--protocol", protocol]) == 1
        assert (seen.read_text(), "error: no pod" in capsys.readouterr().err) == (to, True)


@cases(
    "words code message",
    {
        "nothing": ((), 2, "--text is missing"),
        "video": (("--text", "x", "--video", "y", "--protocol", "triton"), 2, "--protocol openai"),
        "pad": (("--text", "x", "--pad-id", "1"), 2, "--pad_id cannot be sent"),
        "file": (("--text", "x", "--image", "/none.png"), 2, "cannot read /none.png"),
        "refused": (("--text", "x", "--temperature", "-1"), 1, "HTTP 400: "),
        "audio": (("--audio", RED, "--streaming"), 2, "no --streaming"),
    },
)
def test_what_cannot_be_sent(
    real: Pod,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    code: int,
    message: str,
) -> None:
    assert main(["ask", real.model, "--address", real.url, *words]) == code
    assert message in capsys.readouterr().err
