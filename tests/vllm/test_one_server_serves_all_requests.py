"""What clients send reaches the real vLLM through the real gateway, and acts; nothing else does."""

import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from support import calling_llava, tool_templates
from support.client_bodies import BODIES, RESPONSE
from support.ended import kill_tree
from support.eventually import eventually
from support.generated_traffic import reach_real
from support.images import data_url, encode, plain_image
from support.real_vllm import RealVllm, real_vllm
from support.scripts import ROOT
from support.videos import video

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(3600)]

MANY = int(os.environ.get("MM_GENERATED_REQUESTS", "500"))
SEED = int(os.environ.get("MM_GENERATED_SEED", "100"))
PROGRAMS = ROOT / "examples" / "dashinfer"
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
RUNNING = "vllm:num_requests_running"
SEEN, FOUND = "vllm:mm_cache_queries_total", "vllm:mm_cache_hits_total"
LIMITS = {"max_input_len": 448, "max_seq_len": 512}
"""An answer without a limit of its own takes seconds."""

LONG = {
    "model": "tiny",
    "messages": [{"role": "user", "content": "Will it rain?"}],
    "max_tokens": 450,
    "ignore_eos": True,
    "stream": True,
}
SCHEMA = {
    "type": "object",
    "properties": {"a": {"enum": ["red", "blue"]}},
    "required": ["a"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "function": {"name": "look", "parameters": SCHEMA}}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealVllm]:
    folder = tmp_path_factory.mktemp("vllm")
    checkpoint = calling_llava.write_calling_llava(folder / "checkpoint", tool_templates.HERMES)
    with real_vllm(checkpoint, folder, limits=LIMITS) as found:
        yield found


def query(served: RealVllm, path: str = CHAT, **fields: Any) -> httpx.Response:
    plain = {"messages": [{"role": "user", "content": "Will it rain?"}]} if path == CHAT else {}
    body = {"model": "tiny", "temperature": 0, "max_tokens": 24, **plain, **fields}
    return httpx.post(f"{served.url}{path}", json=body, timeout=120)


def content(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    return str(answer.json()["choices"][0]["message"]["content"])


def image(width: int = 28) -> dict[str, Any]:
    url = data_url(encode(plain_image((width, 28))))
    return {"type": "image_url", "image_url": {"url": url}}


def test_forms_are_kept(served: RealVllm) -> None:
    """By a pattern, of some texts, of a schema, and of calls that must be made."""
    assert re.fullmatch(
        "(red|blue) [0-9]{3}",
        content(query(served, structured_outputs={"regex": "(red|blue) [0-9]{3}"})),
    )
    assert content(query(served, structured_outputs={"choice": ["red", "blue"]})) in {"red", "blue"}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
    assert json.loads(content(query(served, response_format=form)))["a"] in {"red", "blue"}
    for choice in ("required", {"type": "function", "function": {"name": "look"}}):
        answer = query(
            served, tools=[TOOL], tool_choice=choice, parallel_tool_calls=False, max_tokens=200
        )
        assert answer.status_code == 200, answer.text
        (call,) = answer.json()["choices"][0]["message"]["tool_calls"]
        assert call["function"]["name"] == "look"
        assert json.loads(call["function"]["arguments"])["a"] in {"red", "blue"}
    refused = query(served, structured_outputs={"regex": "((("})
    assert refused.status_code == 400
    assert "The model refused the request" in refused.json()["error"]["message"]


def test_sampling_acts(served: RealVllm) -> None:
    """Several answers, their scores, seeds of all 64 bits, and what forbids or forces a token."""
    drawn: Any = {"n": 3, "temperature": 1, "seed": (1 << 63) - 2, "ignore_eos": True}
    several = query(served, **drawn, logprobs=True, top_logprobs=2)
    assert several.status_code == 200, several.text
    texts = [one["message"]["content"] for one in several.json()["choices"]]
    assert len(set(texts)) == 3
    scores = several.json()["choices"][0]["logprobs"]["content"]
    assert len(scores) == 24
    assert {len(one["top_logprobs"]) for one in scores} == {2}
    again = query(served, **drawn).json()["choices"]
    assert [one["message"]["content"] for one in again] == texts
    forced = query(served, logit_bias={str(ord("A")): 100}, max_tokens=5, ignore_eos=True)
    assert content(forced) == "AAAAA"
    ended = query(served, logit_bias={str(ord("A")): 100}, stop_token_ids=[ord("A")])
    assert content(ended) == ""


def test_texts_are_continued(served: RealVllm) -> None:
    answer = query(served, TEXT, prompt="Will it rain?")
    assert answer.status_code == 200, answer.text
    assert answer.json()["usage"]["prompt_tokens"] == len("<Will it rain?")


def test_images_are_known_by_content_and_salt(served: RealVllm) -> None:
    """The second time an image is found in the server's cache, and not by a client of a salt."""
    text = {"type": "text", "text": "What?"}

    def hits(**fields: Any) -> float:
        before = served.metric(FOUND)
        content(query(served, messages=[{"role": "user", "content": [image(29), text]}], **fields))
        return served.metric(FOUND) - before

    assert [hits(), hits(), hits(cache_salt="a"), hits(cache_salt="a")] == [0, 1, 0, 1]


async def test_generated_requests_are_answered(served: RealVllm) -> None:
    """Made of the gateway's own document: answers are of openai's types, none is a 500."""
    async with httpx.AsyncClient(base_url=served.url, timeout=300) as client:
        clients = await reach_real(client, "tiny", MANY, SEED, most_tokens=8)
    for path, found in clients.found.items():
        logging.getLogger(__name__).info("%s: %s", path, dict(found))
        assert found[200] > 0.1 * found.total(), (path, found)


def test_bodies_of_clients_are_answered(served: RealVllm) -> None:
    """As LangChain, LiteLLM and others write them; what is refused is refused by its name."""
    for one in BODIES:
        limit = {} if one.path == RESPONSE else {"max_tokens": 24}
        body = {**limit, **one.fields, "model": "tiny"}
        answer = httpx.post(f"{served.url}{one.path}", json=body, timeout=120)
        param = answer.json()["error"]["param"] if answer.status_code == 400 else ""
        found = (answer.status_code, param)
        assert found == (400 if one.refused else 200, one.refused), (one, answer.text)


def test_programs_of_the_guide_run(served: RealVllm, tmp_path: Path) -> None:
    """DashInfer-VLM's, as its users write them; LLaVA sees no videos, which is said."""
    images = [tmp_path / "0.png", tmp_path / "1.png"]
    for one in images:
        one.write_bytes(encode(plain_image((28, 28))))
    (tmp_path / "video.mp4").write_bytes(video(50))

    def run(*words: str | Path) -> "subprocess.CompletedProcess[str]":
        command = list(map(str, words))
        return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)

    done = run(sys.executable, PROGRAMS / "two_images.py", served.url, "tiny", *images)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    mmctl = Path(sys.executable).with_name("mmctl")
    query = (mmctl, "ask", "tiny", "--address", served.url, "--text", "what is it ?")
    refused = run(*query, "--video", tmp_path / "video.mp4", "--fps", "2")
    assert refused.returncode == 1
    assert "video" in refused.stderr.splitlines()[-1]


def test_a_client_that_leaves_frees_its_place(served: RealVllm) -> None:
    """The server's count of running requests is zero again."""
    with httpx.stream("POST", f"{served.url}{CHAT}", json=LONG, timeout=120) as stream:
        lines = stream.iter_lines()  # one that is collected would close the stream
        next(lines)
        eventually(lambda: served.metric(RUNNING) == 1)
    eventually(lambda: served.metric(RUNNING) == 0)


def test_a_killed_server_is_an_error_until_it_is_back(served: RealVllm) -> None:
    """A stream ends with an error, new requests get 503 with Retry-After, then answers again."""
    with httpx.stream("POST", f"{served.url}{CHAT}", json=LONG, timeout=120) as stream:
        lines = stream.iter_lines()
        next(lines)
        kill_tree(served.process)
        assert "error" in "".join(lines)
    refused = query(served)
    assert (refused.status_code, refused.headers.get("retry-after")) == (503, "1")
    assert httpx.get(f"{served.url}/readyz", timeout=30).status_code == 503
    served.start()
    served.wait()
    eventually(lambda: httpx.get(f"{served.url}/readyz", timeout=30).status_code == 200)
    content(query(served))
