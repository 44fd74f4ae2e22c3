"""`mmctl plan --checkpoint hf://ORG/NAME@REVISION` inspects what is on the Hub, as Jobs do."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mm_ctl.cli import main
from mm_ctl.commands.checkpoint_folder import facts_of_checkpoint
from mm_runtime.inspect.checkpoint import InspectOptions
from support.cases import cases
from support.hollow_checkpoint import write_checkpoint
from support.hub_server import COMMIT, REPOSITORY, Hub, serving_hub
from support.model_documents import document

ADDRESS = f"hf://{REPOSITORY}@main"
TOKEN = "hf_of_a_test"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    with serving_hub(write_checkpoint(tmp_path / "on-the-hub")) as server:
        yield server


def test_facts_are_those_of_the_folder(hub: Hub) -> None:
    found = facts_of_checkpoint(ADDRESS, InspectOptions(), environment=hub.environment)

    same = facts_of_checkpoint(str(hub.directory), InspectOptions())
    assert found == same.model_copy(update={"source_revision": COMMIT})


@cases(
    "named",
    {
        "of-the-model": lambda mirror: {"network": {"hubEndpoint": mirror}},
        "of-the-source": lambda mirror: {
            "model": {
                "source": {
                    "persistentVolumeClaim": None,
                    "huggingFace": {"repo": REPOSITORY, "endpoint": mirror},
                }
            },
            "network": {"hubEndpoint": "http://127.0.0.1:1"},
        },
    },
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
    assert "HF_TOKEN, for the Hub or the HF_ENDPOINT beside it" in capsys.readouterr().err
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
    assert main(command) == 0


def test_the_environments_mirror_comes_first(hub: Hub) -> None:
    """A mirror within the cluster may not be reached from here."""
    found = facts_of_checkpoint(
        ADDRESS, InspectOptions(), mirror="http://127.0.0.1:1", environment=hub.environment
    )

    assert found.family == "llava"
