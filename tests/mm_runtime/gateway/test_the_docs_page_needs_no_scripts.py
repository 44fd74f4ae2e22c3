"""`/docs` is off by default; on, it says what `/openapi.json` says, and a browser loads nothing."""

import base64
import hashlib
import html
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from mm_runtime.gateway.http.docs_page import HEADERS, docs_page
from mm_runtime.gateway.http.openapi import openapi_document
from support.gateways import client_of, toy_gateway
from support.scripted_engine import ScriptedEngine

LOADING = {"src", "srcset", "background", "action", "data", "poster", "style"}


class Page(HTMLParser):
    """Names of elements, their attributes, and the text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def values(self, attribute: str) -> list[str]:
        return [str(found[attribute]) for _, found in self.elements if attribute in found]


async def test_without_the_field_there_is_no_page(tmp_path: Path) -> None:
    """It is a path like any other that does not exist; the document is there."""
    async with client_of(toy_gateway(tmp_path, ScriptedEngine())) as client:
        page, document = await client.get("/docs"), await client.get("/openapi.json")
    assert (page.status_code, document.status_code) == (404, 200)
    assert page.json()["error"]["message"] == "GET /docs: Not Found."


async def test_the_page_has_every_request_and_field(tmp_path: Path) -> None:
    """What the document has; links lead to what is on the page."""
    async with client_of(toy_gateway(tmp_path, ScriptedEngine(), docs=True)) as client:
        answer = await client.get("/docs")
        document = (await client.get("/openapi.json")).json()
        posted = await client.post("/docs")
    assert posted.status_code == 405
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert HEADERS.items() <= dict(answer.headers).items()

    page = Page(answer.text)
    text = " ".join(page.texts)
    for path, methods in document["paths"].items():
        for method in methods:
            assert f"{method.upper()} {path}" in text
    schemas = document["components"]["schemas"]
    assert set(page.values("id")) == set(schemas)
    for schema in schemas.values():
        for name, field in schema.get("properties", {}).items():
            assert name in page.texts or field["type"] == "null"
    links = page.values("href")
    assert len(links) > len(schemas)
    assert {link.removeprefix("#") for link in links} <= {*schemas, "openapi.json"}


async def test_there_is_no_field_that_holds_nothing(tmp_path: Path) -> None:
    """Clients send some as null; a person has nothing to write there."""
    async with client_of(toy_gateway(tmp_path, ScriptedEngine(), docs=True)) as client:
        page = (await client.get("/docs")).text
    assert "<td>null</td>" not in page
    assert "namespace" not in Page(page).texts


async def test_the_page_has_the_paths_that_the_model_serves(tmp_path: Path) -> None:
    """A model of images transcribes nothing: what it would always refuse is not there."""
    async with client_of(toy_gateway(tmp_path, ScriptedEngine(), docs=True)) as client:
        document = (await client.get("/openapi.json")).json()
        page = (await client.get("/docs")).text
    assert set(document["paths"]) == {
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/responses",
        "/v1/models",
    }
    assert "TranscriptionRequest" not in page


async def test_a_token_is_needed_where_requests_need_one(tmp_path: Path) -> None:
    """As for `/openapi.json`."""
    (tmp_path / "tokens").write_text("alice: sk-a\n")
    gateway = toy_gateway(
        tmp_path / "engine", ScriptedEngine(), auth_token_file=tmp_path / "tokens", docs=True
    )
    headers = {"authorization": "Bearer sk-a"}
    async with client_of(gateway) as client:
        found = [await client.get("/docs", headers=one) for one in ({}, headers)]
    assert [one.status_code for one in found] == [401, 200]


def test_a_browser_loads_nothing() -> None:
    """No script, no address of anything; the policy knows the one style that there is."""
    text = docs_page(openapi_document("toy"))
    page = Page(text)
    assert {tag for tag, _ in page.elements}.isdisjoint(
        {"script", "link", "img", "iframe", "form", "object", "base"}
    )
    assert not any(
        name in LOADING or name.startswith("on") for _, found in page.elements for name in found
    )
    assert "//" not in text
    style = text.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert HEADERS["content-security-policy"].startswith(
        f"default-src 'none'; style-src 'sha256-{digest}';"
    )


@pytest.mark.parametrize(
    "text",
    ["<script>alert(1)</script>", "\"'><img src=x onerror=alert(1)>", "{{ 7 * 7 }}", "</style>"],
)
def test_texts_stay_texts(text: str) -> None:
    """A name or a description is shown as it is, wherever it stands."""
    schema: dict[str, Any] = {
        "description": text,
        "properties": {text: {"enum": [text], "default": text, "description": text}},
    }
    document = {
        "info": {"title": text},
        "paths": {text: {"get": {"summary": text}}},
        "components": {"schemas": {text: schema, "b": {"$ref": f"#/{text}"}}},
    }
    page = Page(docs_page(document))
    plain = Page(docs_page({**document, "info": {"title": "x"}}))
    assert text in page.texts
    assert [tag for tag, _ in page.elements] == [tag for tag, _ in plain.elements]
    assert {tag for tag, _ in page.elements}.isdisjoint({"script", "img"})
    assert page.texts.count(text) >= 4


@pytest.mark.parametrize(
    ("text", "codes", "shown"),
    [
        ("a `data:` URL of `<b>`", ["data:", "<b>"], "a data: URL of <b>"),
        ("one ` alone", [], "one ` alone"),
    ],
)
def test_names_in_descriptions_are_code(text: str, codes: list[str], shown: str) -> None:
    """What backticks mean in the document is no text of the page."""
    for schema in ({"description": text}, {"properties": {"x": {"description": text}}}):
        document = {"info": {"title": "t"}, "paths": {}, "components": {"schemas": {"b": schema}}}
        written = docs_page(document)
        assert shown in "".join(Page(written).texts)
        assert [one for one in codes if f"<code>{html.escape(one)}</code>" not in written] == []


def test_meanings_have_a_column_where_there_are_some() -> None:
    """A column without texts takes room from the others."""
    fields = {"x": {"type": "string"}}
    for description, columns in (("", 3), ("what it is", 4)):
        described = {"x": {**fields["x"], "description": description}}
        schemas: dict[str, Any] = {"b": {"properties": described}}
        document = {"info": {"title": "t"}, "paths": {}, "components": {"schemas": schemas}}
        tags = [tag for tag, _ in Page(docs_page(document)).elements]
        body = tags[tags.index("h3") :]
        assert (body.count("th"), body.count("td")) == (columns, columns)


def test_kinds_of_values_are_written_out() -> None:
    """Each form of a schema that says what a value may be."""
    fields = {
        "a": {"type": "integer", "minimum": 1, "maximum": 9},
        "b": {"anyOf": [{"$ref": "#/components/schemas/Part"}, {"type": "null"}]},
        "c": {"type": "array", "items": {"type": "string"}, "maxItems": 4},
        "d": {"enum": ["x", None]},
        "e": {"type": "object", "additionalProperties": {"type": "number"}},
        "g": {"const": 1},
        "h": {"type": ["string", "null"]},
        "i": {},
    }
    schemas: dict[str, Any] = {"Body": {"properties": fields, "required": ["a"]}, "Part": {}}
    document = {"info": {"title": "t"}, "paths": {}, "components": {"schemas": schemas}}
    text = " ".join("".join(Page(docs_page(document)).texts).split())
    for expected in (
        "a (required) integer (minimum 1, maximum 9)",
        "b Part or null",
        "c array of string (maxItems 4)",
        'd "x" | null',
        "e object of number",
        "g 1",
        "h string | null",
        "i any",
    ):
        assert expected in text
