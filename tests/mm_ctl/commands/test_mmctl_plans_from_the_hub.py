"""`mmctl plan --checkpoint hf://ORG/NAME@REVISION` reads configurations and headers by ranges."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from mm_ctl.cli import main
from mm_ctl.commands import remote_folder as reading
from mm_ctl.commands.checkpoint_folder import facts_of_folder
from mm_ctl.commands.hub_checkpoint import HubCheckpoint
from mm_ctl.commands.remote_folder import remote_folder
from mm_ctl.documents import UsageError
from support.hollow_checkpoint import LLAVA_CONFIG, write_checkpoint, write_safetensors
from support.hub_server import COMMIT, REPOSITORY, Hub, serving_hub
from support.model_documents import document

ELEMENTS = 1024 * 1024
ADDRESS = f"hf://{REPOSITORY}@main"
TOKEN = "hf_of_a_test"


def hub_folder(address: str, environment: Mapping[str, str]) -> AbstractContextManager[Path]:
    """Give the folder of a repository."""
    return remote_folder(HubCheckpoint.parse(address, environment))


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    """A Hub with a checkpoint of two weight files, one of 2 MB."""
    folder = write_checkpoint(tmp_path / "on-the-hub")
    write_safetensors(folder / "more.safetensors", {"c": ("F16", (ELEMENTS,))})
    with serving_hub(folder) as server:
        yield server


def test_facts_are_those_of_the_folder(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers of weights come from headers; most bytes of the weights stay where they are."""
    monkeypatch.setattr(reading, "FIRST_BYTES", 64)
    with hub_folder(ADDRESS, hub.environment) as folder:
        found = facts_of_folder(folder, None)

    assert found == facts_of_folder(hub.directory, None)
    assert found.parameters == 96 + ELEMENTS
    assert hub.bytes_sent < 8192
    assert {path for _, path, _ in hub.requests if "/resolve/" in path} == {
        f"/{REPOSITORY}/resolve/{COMMIT}/{name}"
        for name in (
            "config.json",
            "preprocessor_config.json",
            "model.safetensors",
            "more.safetensors",
        )
    }


def test_servers_without_ranges_are_read(hub: Hub) -> None:
    """A simple mirror sends files from their beginning; what comes after the header is not read."""
    hub.ranges = False
    with hub_folder(ADDRESS, hub.environment) as folder:
        assert facts_of_folder(folder, None) == facts_of_folder(hub.directory, None)
        assert (folder / "more.safetensors").stat().st_size < 4096


def test_a_token_opens_it_and_stays_on_the_hub(hub: Hub) -> None:
    """The storage that files are redirected to is another host, and is not shown the token."""
    hub.token = TOKEN
    with hub_folder(ADDRESS, hub.environment) as folder:
        assert facts_of_folder(folder, None).family == "llava"
    assert any(path.startswith("/cdn/") for _, path, _ in hub.requests)


def test_the_plan_is_printed(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command itself, with the mirror of the environment."""
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
    spec = tmp_path / "model.yaml"
    spec.write_text(json.dumps(document({"engine": {"backend": "Reference"}})))

    printed = []
    for place in (ADDRESS, str(hub.directory)):
        assert main(["plan", "-f", str(spec), "--checkpoint", place, "-o", "json"]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]


@pytest.mark.parametrize(
    "named",
    [
        pytest.param(lambda mirror: {"network": {"hubEndpoint": mirror}}, id="of-the-model"),
        pytest.param(
            lambda mirror: {
                "model": {
                    "source": {
                        "persistentVolumeClaim": None,
                        "huggingFace": {"repo": REPOSITORY, "endpoint": mirror},
                    }
                },
                "network": {"hubEndpoint": "http://127.0.0.1:1"},
            },
            id="of-the-source",
        ),
    ],
)
def test_the_mirror_of_the_spec_is_read(
    hub: Hub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    named: Callable[[str], dict[str, Any]],
) -> None:
    """As the model's own Jobs do; the author of the spec does not get the user's token."""
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    spec = tmp_path / "model.yaml"
    spec.write_text(
        json.dumps(document({"engine": {"backend": "Reference"}, **named(hub.endpoint)}))
    )
    command = ["plan", "-f", str(spec), "--checkpoint", ADDRESS, "-o", "json"]

    assert main(command) == 0
    hub.token = TOKEN
    capsys.readouterr()
    assert main(command) != 0
    assert f"with HF_ENDPOINT={hub.endpoint}" in capsys.readouterr().err
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
    assert main(command) == 0


def test_the_environments_mirror_comes_first() -> None:
    """A mirror within the cluster may not be reached from here."""
    environment = {"HF_ENDPOINT": "https://own.example/", "HF_TOKEN": TOKEN}
    own = HubCheckpoint.parse(ADDRESS, environment, "https://cluster.example")
    specs = HubCheckpoint.parse(ADDRESS, {"HF_TOKEN": TOKEN}, "https://cluster.example")

    assert (own.endpoint, own.token) == ("https://own.example", TOKEN)
    assert (specs.endpoint, specs.token) == ("https://cluster.example", "")


@pytest.mark.parametrize(
    ("address", "words"),
    [
        pytest.param("hf://a/b/c", "expected hf://ORG/NAME@REVISION", id="no-address"),
        pytest.param("hf://acme/other", "no such repository, revision or file", id="repository"),
        pytest.param(
            f"hf://{REPOSITORY}@v9", "no such repository, revision or file", id="revision"
        ),
    ],
)
def test_what_is_not_there_is_reported(hub: Hub, address: str, words: str) -> None:
    """What was expected, and of which server."""
    with pytest.raises(UsageError, match=words), hub_folder(address, hub.environment):
        pass


def test_gated_repositories_are_reported(hub: Hub) -> None:
    """With what to do."""
    hub.gated = True
    with (
        pytest.raises(UsageError, match="accept the repository's terms"),
        hub_folder(ADDRESS, hub.environment),
    ):
        pass


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(b"", "it has 0 bytes", id="empty"),
        pytest.param(b"\xff" * 16, "its header has", id="absurd-length"),
        pytest.param(b"\x02" + bytes(7) + b"[]", "is not a safetensors file", id="no-header"),
    ],
)
def test_damaged_headers_name_the_repository(hub: Hub, content: bytes, words: str) -> None:
    """Not the folder that it was read into, which is gone by then."""
    (hub.directory / "more.safetensors").write_bytes(content)
    with (
        pytest.raises(UsageError, match=words) as caught,
        hub_folder(ADDRESS, hub.environment) as folder,
    ):
        facts_of_folder(folder, None)
    assert ADDRESS in str(caught.value)


def test_an_unknown_family_is_named(tmp_path: Path) -> None:
    """The configuration alone decides."""
    folder = write_checkpoint(
        tmp_path / "x", {**LLAVA_CONFIG, "model_type": "z", "architectures": ["Z"]}
    )
    with (
        serving_hub(folder) as server,
        pytest.raises(UsageError, match="hf://"),
        hub_folder(ADDRESS, server.environment) as read,
    ):
        facts_of_folder(read, None)
