"""On the entire development cluster: a request is one trace, from the router to Triton's own spans.

The receiver is on the node's machine, refuses what OTLP over HTTP does not allow, and is reached
through the NetworkPolicies of router and model.
"""

from ipaddress import ip_address
from types import SimpleNamespace
from urllib.parse import urlsplit

import httpx
import pytest

from support.eventually import eventually
from support.installed import Installed, model_space, with_router
from support.otlp_receiver import otlp_receiver
from support.tiny_llava import CHECKPOINT, samples

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(900)]

MODEL = "traced"
PATH = "/v1/chat/completions"
TRACE, SPAN = "ab" * 16, "cd" * 8
NAMES = {"traceparent": f"00-{TRACE}-{SPAN}-01", "x-request-id": "client-7"}
SECONDS = 60.0
"""The SDK sends what it has after 5 s, Triton's library after as long."""


def counted(spans: list[SimpleNamespace], *names: str) -> list[int]:
    return [[one.name for one in spans].count(name) for name in names]


def test_router_gateway_and_triton_are_one_trace(installed: Installed) -> None:
    """Parents are right, each pod is named, and the client's X-Request-Id is kept.

    Also where a client leaves; requests that are not recorded leave nothing.
    """
    host = str(ip_address(str(urlsplit(installed.cluster.server).hostname)) - 1)
    with otlp_receiver(host) as receiver:
        tracing = {"tracing": {"endpoint": receiver.url, "samplingRatio": 0}}
        with (
            with_router(installed, {"observability": tracing}) as address,
            model_space(installed, "traces") as space,
        ):
            space.upload(CHECKPOINT, "tiny")
            space.apply(space.model(MODEL, "tiny"))
            space.wait_ready(MODEL, 400)
            sample = samples()[0]
            body = {"model": MODEL, "messages": sample.messages, "temperature": 0, "max_tokens": 24}
            url = address.removesuffix("/v1") + PATH
            silent = httpx.post(url, json=body, timeout=60)
            found = httpx.post(url, json=body, headers=NAMES, timeout=60)
            assert [one.status_code for one in (silent, found)] == [200, 200]
            stream = {**body, "stream": True}
            with httpx.stream("POST", url, json=stream, headers=NAMES, timeout=60) as left:
                next(left.iter_bytes())
            assert found.headers["x-request-id"] == "client-7"
            assert found.json()["choices"][0]["message"]["content"] == sample.answer
            seen = receiver.spans
            eventually(
                lambda: counted(seen, "InferRequest", "generate", f"POST {PATH}") == [2, 2, 4],
                seconds=SECONDS,
                showing=lambda: [(one.service, one.name) for one in seen],
            )
            pods = {pod["metadata"]["name"] for pod in space.get("pods")["items"]}
    assert ({one.trace for one in seen}, receiver.refused) == ({TRACE}, [])
    spans = {one.id: one for one in seen}
    for name in ("preprocessing", "multimodal_encoders", "tensorrt_llm"):
        one, above = next(one for one in seen if one.name == name), []
        while one.parent in spans:
            one = spans[one.parent]
            above.append((one.service.rpartition("-")[2], one.name))
        assert one.parent == SPAN
        assert above[1:] == [
            *(("server", "InferRequest"), ("gateway", "generate")),
            *(("gateway", f"POST {PATH}"), ("router", f"POST {PATH}")),
        ]
    of_requests = [one for one in seen if one.name == f"POST {PATH}"]
    ids = {one.attributes["http.request.header.x-request-id"] for one in of_requests}
    assert ids == {"client-7"}
    of_model = {one.resource["k8s.pod.name"] for one in seen if one.service.startswith(MODEL)}
    assert of_model & pods == of_model
