"""LoRA adapters become what the server's cache takes, and those that do not fit are refused."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from safetensors.torch import load_file

from mm_api.contract import LORA_HOST_BYTES, ExitCode
from mm_api.documents.lora_adapter import LoraAdapter
from mm_api.documents.trtllm_build import TrtllmBuild
from mm_runtime.adapters.facts import with_adapters as inspect_adapters
from mm_runtime.adapters.files import sourced
from mm_runtime.engine_build.commands.step import StepContext
from mm_runtime.errors import PermanentError, SourceChangedError
from mm_runtime.launch.tritonserver import link_adapters
from support.cases import cases
from support.lora_adapters import BART, LLAMA, pair, write_adapter
from support.model_configs import planned
from support.native.backend.checks import RefusedError, read_adapters
from support.trtllm_sites import TrtllmSite, journalled, printed, trtllm_site, use_site
from support.trtllm_tools.install import Tools

Q_PROJ = "self_attn.q_proj"
HIDDEN = 4096
FLAGS = ["--lora_plugin", "float16", "--lora_dir", "adapters/one", "adapters/two"]
FLAGS += ["--lora_target_modules", "attn_q", "attn_v", "mlp_4h_to_h"]


def with_adapters(site: TrtllmSite, *sources: Path, flags: bool = False) -> TrtllmSite:
    build = site.plan.trtllm
    assert build is not None
    names = ("one", "two", "three")
    lora = [
        LoraAdapter(name=name, uid=uid, source=str(source))
        for uid, (name, source) in enumerate(zip(names, sources, strict=False))
    ]
    engines = [
        engine.model_copy(update={"argv": engine.argv + FLAGS})
        if flags and engine.name == "llm"
        else engine
        for engine in build.engines
    ]
    plan = site.plan.model_copy(
        update={"trtllm": build.model_copy(update={"lora": lora, "engines": engines})}
    )
    return TrtllmSite(site.source, site.store, plan, site.planned, site.tools)


@pytest.mark.slow
def test_adapters_become_arrays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tools: Tools
) -> None:
    first = pair(LLAMA, rank=4, source=HIDDEN, target=HIDDEN, module=Q_PROJ)
    first |= pair(LLAMA, rank=4, source=11008, target=HIDDEN, layer=3, module="mlp.down_proj")
    second = pair(LLAMA, rank=2, source=HIDDEN, target=HIDDEN, module="self_attn.v_proj")
    one = write_adapter(tmp_path / "one", first, rank=4)
    two = write_adapter(tmp_path / "two", second, rank=2)
    site = use_site(
        monkeypatch, with_adapters(trtllm_site(tmp_path, tools, "llava"), one, two, flags=True)
    )
    result, code = site.build()
    assert (code, result.failure) == (ExitCode.OK, None)
    lora = site.paths.engine / "lora"
    config = np.load(lora / "one" / "llm" / "model.lora_config.npy")
    weights = np.load(lora / "one" / "llm" / "model.lora_weights.npy")
    assert config.tolist() == [[[1, 0, 4], [6, 3, 4]]]
    assert (weights.shape, weights.dtype) == ((1, 2, 4 * (11008 + HIDDEN)), np.float16)
    tensors = load_file(one / "adapter_model.safetensors")
    a, b = (tensors[LLAMA.format(layer=0, module=Q_PROJ, side=side)] for side in "AB")
    # alpha is twice the rank: B counts twice. The row is padded with zeros to the longest.
    row = np.concatenate([a.numpy().ravel(), 2 * b.numpy().ravel()]).astype(np.float16)
    assert np.array_equal(row, weights[0, 0, : row.size])
    assert not weights[0, 0, row.size :].any()
    assert np.load(lora / "two" / "llm" / "model.lora_config.npy").tolist() == [[[3, 0, 2]]]
    reported = json.loads((lora / "adapters.json").read_text())
    assert [(one["name"], one["uid"]) for one in reported] == [("", -1), ("one", 0), ("two", 1)]
    engine = json.loads((site.paths.engine / "llm" / "config.json").read_text())
    engine["pretrained_config"] |= {"intermediate_size": 11008, "num_key_value_heads": 32}
    link_adapters(lora, tmp_path / "linked")
    assert read_adapters(in_folder(tmp_path / "linked"), engine) == {0, 1}


def in_folder(folder: Path, most: int = LORA_HOST_BYTES) -> dict[str, str]:
    return {"lora_prefetch_dir": str(folder), "lora_cache_host_memory_bytes": str(most)}


SMALL: dict[str, Any] = {
    "pretrained_config": {
        "dtype": "float16",
        "num_hidden_layers": 2,
        "hidden_size": 8,
        "intermediate_size": 16,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
    },
    "build_config": {"lora_config": {"lora_target_modules": ["attn_v"], "max_lora_rank": 4}},
}
ROW = np.zeros((1, 1, 48), np.float16)


def keys_of(*row: int) -> Any:
    return np.array([[row]], np.int32)


KEYS = keys_of(3, 1, 4)


@cases(
    "weights keys words",
    {
        "layout": (ROW[0], KEYS, "Invalid shape for lora_weights"),
        "dtype": (ROW.astype(np.float32), KEYS, "same data type as base model"),
        "ids": (ROW, KEYS.astype(np.int64), "TYPE_INT32 but was int64"),
        "rows": (np.concatenate([ROW, ROW], 1), KEYS, "Expected dim1"),
        "columns": (ROW, keys_of(3, 1), "Expected dim2"),
        "layer": (ROW, keys_of(3, 2, 4), "Expected layerId"),
        "module": (ROW, keys_of(1, 1, 4), "lora module 1 not enabled"),
        "rank": (ROW, keys_of(3, 1, 5), r"Invalid low_rank \(5\)"),
        "values": (ROW[:, :, :47], KEYS, "few values for attn_v"),
        "cache": (np.zeros((1, 1, 999), np.float16), KEYS, "PEFT Cache is full"),
    },
)
def test_the_backend_takes_no_other_files(
    tmp_path: Path, weights: Any, keys: Any, words: str
) -> None:
    """The stand-in opens them with the backend's own checks."""
    (tmp_path / "7").mkdir()
    for name, array in (("weights", ROW), ("config", KEYS)):
        np.save(tmp_path / "7" / f"model.lora_{name}.npy", array)
    assert read_adapters(in_folder(tmp_path, 96), SMALL) == {7}
    for name, array in (("weights", weights), ("config", keys)):
        np.save(tmp_path / "7" / f"model.lora_{name}.npy", array)
    with pytest.raises(RefusedError, match=words):
        read_adapters(in_folder(tmp_path, 1000), SMALL)


@pytest.mark.slow
def test_encoder_and_decoder_get_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tools: Tools
) -> None:
    size = {"rank": 2, "source": 1024, "target": 1024}
    tensors = pair(BART, part="encoder", module=Q_PROJ, **size)
    tensors |= pair(BART, part="decoder", module="encoder_attn.v_proj", **size)
    adapter = write_adapter(tmp_path / "adapter", tensors, rank=2)
    site = use_site(monkeypatch, with_adapters(trtllm_site(tmp_path, tools, "bart"), adapter))
    result, code = site.build()
    assert (code, result.failure) == (ExitCode.OK, None)
    found = {
        part: np.load(site.paths.engine / "lora" / "one" / part / "model.lora_config.npy").tolist()
        for part in ("encoder", "decoder")
    }
    assert found == {"encoder": [[[1, 0, 2]]], "decoder": [[[11, 0, 2]]]}


def test_what_was_inspected_is_planned_and_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tools: Tools
) -> None:
    """The plan has the place where its own model found the adapter; the Job reports another."""
    size = {"rank": 2, "source": 1024, "target": 1024}
    tensors = pair(BART, part="decoder", module="encoder_attn.v_proj", **size)
    adapter = str(write_adapter(tmp_path / "adapter", tensors, rank=2))
    site = trtllm_site(tmp_path, tools, "bart")
    facts = inspect_adapters(site.plan.facts, [("one", adapter)])
    claim = {"persistentVolumeClaim": {"claimName": "elsewhere"}}
    spec = {"lora": [{"name": "one", "source": claim}]}
    off = {"evaluation": "Off"}  # hollow weights have no answers
    complete = planned("bart", spec, version=tools.version, facts=facts, build=off)
    assert complete.build_plan is not None
    plan = sourced(complete.build_plan, {"one": adapter})
    site = use_site(monkeypatch, TrtllmSite(site.source, site.store, plan, complete, site.tools))
    result, code = site.build()
    assert (code, result.failure) == (ExitCode.OK, None)
    engines = site.paths.engine
    configs = {
        part: json.loads((engines / part / "config.json").read_text())["build_config"]
        for part in ("encoder", "decoder")
    }

    assert plan.fingerprint == complete.fingerprint
    assert list(journalled(site).values()) == printed(site)
    assert {
        part: config["lora_config"]["lora_target_modules"] for part, config in configs.items()
    } == {"encoder": [], "decoder": ["cross_attn_v"]}
    assert (engines / "lora" / "one" / "decoder" / "model.lora_weights.npy").is_file()


def _adapter(folder: Path, *, rank: int = 2, **changes: object) -> Path:
    size = {"source": HIDDEN, "target": HIDDEN, "layer": 0, "module": Q_PROJ, **changes}
    return write_adapter(folder, pair(LLAMA, rank=rank, **size), rank=rank)  # type: ignore[arg-type]


def _half(folder: Path) -> Path:
    tensors = pair(LLAMA, rank=2, source=HIDDEN, target=HIDDEN, module=Q_PROJ)
    tensors.popitem()
    return write_adapter(folder, tensors, rank=2)


def _vision(folder: Path) -> Path:
    name = "base_model.model.vision_tower.layers.{layer}.self_attn.q_proj.lora_{side}.weight"
    return write_adapter(folder, pair(name, rank=2, source=1024, target=1024), rank=2)


def _pickled(folder: Path) -> Path:
    tensors = pair(LLAMA, rank=2, source=HIDDEN, target=HIDDEN, module=Q_PROJ)
    return write_adapter(folder, tensors, rank=2, pickle=True)


def _packed(path: Path) -> Path:
    path.write_bytes(b"PK")
    return path


def _empty(folder: Path) -> Path:
    folder.mkdir()
    return folder


@cases(
    "make words",
    {
        "hidden-size": (
            lambda path: _adapter(path, source=5120),
            (
                "was made for another model: base_model.model.language_model.model.layers.0"
                ".self_attn.q_proj.lora_A.weight is [2, 5120], and this checkpoint's attn_q"
                " needs 4096"
            ),
        ),
        "layer": (
            lambda path: _adapter(path, layer=32),
            "The adapter has a layer 32, and the llm has 32",
        ),
        "module": (
            lambda path: _adapter(path, module="self_attn.rotary"),
            "is not a tensor that an engine can take from a LoRA",
        ),
        "half": (_half, "has not both matrices of one rank"),
        "vision": (_vision, "changes the vision half"),
        "pickle": (_pickled, "is a pickle (adapter_model.bin)"),
        "empty": (_empty, "has no adapter_config.json"),
        "file": (_packed, "is a file; expected a folder"),
    },
)
def test_adapters_that_do_not_fit_are_refused(
    tmp_path: Path, tools: Tools, make: Callable[[Path], Path], words: str
) -> None:
    site = with_adapters(trtllm_site(tmp_path, tools, "llava"), make(tmp_path / "adapter"))
    context = StepContext(site.plan, site.source, site.paths)
    with pytest.raises(PermanentError, match=re.escape(words)):
        fetch_and_convert(context)


def fetch_and_convert(context: StepContext) -> None:
    """Run the two steps of adapters in this process: torch is loaded once for all tests."""
    from mm_runtime.engine_build.commands.fetch_adapters import fetch_adapters  # noqa: PLC0415 (torch)
    from mm_runtime.engine_build.commands.lora import lora  # noqa: PLC0415

    fetch_adapters(context)
    lora(context)


@cases(
    "adapters words",
    {
        "name": ((("a", 0), ("a", 1)), "two LoRA adapters have the name a"),
        "uid": ((("a", 3), ("b", 3)), "two LoRA adapters have the uid 3"),
        "traversal": ((("../a", 0),), "should match pattern"),
        "base-model": ((("a", -1),), "greater than or equal to 0"),
    },
)
def test_names_and_uids_are_distinguished(
    tmp_path: Path, tools: Tools, adapters: tuple[tuple[str, int], ...], words: str
) -> None:
    site = trtllm_site(tmp_path, tools, "llava")
    assert site.plan.trtllm is not None
    reported = site.plan.trtllm.model_dump(by_alias=True)
    reported["lora"] = [{"name": name, "uid": uid, "source": "/x"} for name, uid in adapters]
    with pytest.raises(ValidationError, match=words):
        TrtllmBuild.model_validate(reported)


def test_a_changed_adapter_is_planned_again(tmp_path: Path, tools: Tools) -> None:
    site = with_adapters(trtllm_site(tmp_path, tools, "llava"), _adapter(tmp_path / "adapter"))
    build = site.plan.trtllm
    assert build is not None
    other = [one.model_copy(update={"source_digest": "sha256:" + "0" * 64}) for one in build.lora]
    plan = site.plan.model_copy(update={"trtllm": build.model_copy(update={"lora": other})})
    with pytest.raises(SourceChangedError, match="is not the one that was planned for"):
        fetch_and_convert(StepContext(plan, site.source, site.paths))
