"""Whatever a Prometheus does wrong becomes one sentence that says what to do."""

import asyncio
import ssl
from pathlib import Path

import pytest
from aiohttp import web

from mm_operator.scaling.answers import MetricsError, read_vector
from mm_operator.scaling.prometheus import Endpoint, Prometheus, trust
from support.answering_api import Answer, answered_by
from support.cases import cases
from support.certificates import signed_by_itself


async def query(endpoint: Endpoint, seconds: float = 60.0) -> object:
    client = Prometheus(endpoint, trust(endpoint), seconds)
    try:
        return await client.query("up")
    finally:
        await client.close()


async def refuse(_: web.Request) -> web.Response:
    return web.Response(status=401, text="who are you?")


async def hang(_: web.Request) -> web.Response:
    await asyncio.sleep(3)
    return web.Response()


async def babble(_: web.Request) -> web.Response:
    return web.Response(text="<html>welcome</html>")


async def wander(_: web.Request) -> web.Response:
    return web.Response(status=302, headers={"Location": "http://elsewhere.example/"})


async def object_to(_: web.Request) -> web.Response:
    body = {"status": "error", "errorType": "bad_data", "error": "parse error:\n no"}
    return web.json_response(body, status=400)


async def cut(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b'{"status":')
    request.transport.abort()
    return response


async def fine(request: web.Request) -> web.Response:
    labels = {"token": request.headers.get("Authorization", "")}
    result = [{"metric": labels, "value": [0, "1"]}, {"metric": {}, "value": [0, "NaN"]}]
    data = {"resultType": "vector", "result": result}
    return web.json_response({"status": "success", "data": data})


@cases(
    "answer sentence",
    {
        "401": (refuse, "refused the credentials (HTTP 401): check"),
        "slow": (hang, "did not answer within 1 s"),
        "garbage": (babble, "something that is not JSON: is it Prometheus?"),
        "redirect": (wander, "redirects elsewhere: set prometheus.addresses"),
        "query": (object_to, "refused the query: parse error: no"),
        "cut": (cut, "cannot be reached (ClientPayloadError)"),
    },
)
async def test_a_bad_answer_is_a_sentence(answer: Answer, sentence: str) -> None:
    async with answered_by(answer) as address:
        with pytest.raises(MetricsError) as reported:
            await query(Endpoint((address,)), seconds=1 if answer is hang else 60)

    assert f"{address} {sentence}" in str(reported.value) or sentence in str(reported.value)
    assert address in str(reported.value)


async def test_an_absent_server_is_a_sentence() -> None:
    with pytest.raises(MetricsError, match="cannot be reached"):
        await query(Endpoint(("http://127.0.0.1:1",)))


async def test_the_replica_answers_when_the_first_does_not() -> None:
    """Of an HA pair one may be down, and the one that answered is queried first afterwards."""
    requested: list[int] = []

    async def count(request: web.Request) -> web.Response:
        requested.append(1)
        return await refuse(request)

    async with answered_by(count) as bad, answered_by(fine) as good:
        client = Prometheus(Endpoint((bad, good), token="secret"), trust(Endpoint(())), 60.0)
        try:
            first, second = [read_vector(await client.query("up")) for _ in range(2)]
        finally:
            await client.close()

    assert [sample.labels for sample in first] == [{"token": "Bearer secret"}]
    assert (first, len(requested)) == (second, 1)


async def test_certificates_are_checked(tmp_path: Path) -> None:
    """Another authority is refused with what to do; the right one, or none requested, is taken."""
    certificate, key = signed_by_itself(tmp_path, "right")
    other, _ = signed_by_itself(tmp_path, "other")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    async with answered_by(fine, tls=context) as address:
        right = Endpoint((address,), ca=certificate.read_text())
        wrong = Endpoint((address,), ca=other.read_text())

        assert len(read_vector(await query(right))) == 1
        assert len(read_vector(await query(Endpoint((address,), insecure=True)))) == 1
        with pytest.raises(MetricsError, match=r"not trusted: set ca\.crt in the Secret"):
            await query(wrong)


def test_damaged_authorities_are_reported() -> None:
    with pytest.raises(MetricsError, match="cannot be read: it must be PEM"):
        trust(Endpoint((), ca="no certificate"))


def test_secrets_do_not_show() -> None:
    endpoint = Endpoint(("http://a",), token="secret", key="private")

    assert repr(endpoint) == "Endpoint(http://a)"
