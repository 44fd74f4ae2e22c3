"""A builder that is killed, or whose disk is full, at any step continues where it was."""

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from mm_api.contract import ExitCode
from mm_api.documents.build_result import BuildReason, BuildResult
from mm_api.documents.engine_manifest import StepRecord
from mm_runtime.adapters.facts import with_adapters
from mm_runtime.adapters.files import sourced
from mm_runtime.backends import steps
from mm_runtime.base import manifest as manifests
from mm_runtime.engine_build import commands
from mm_runtime.engine_build.journal import Journal
from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from support.broken_checkpoints import SINGLE, copied
from support.build_sites import Site
from support.families.images import write
from support.families.pipeline import plan_of
from support.killed_builders import run_builder
from support.lora_adapters import LLAMA, pair, write_adapter
from support.model_configs import facts_of, planned
from support.sentence_pieces import train, write_config
from support.small_disk import fill, small_disk
from support.staging_sites import StagingSite, staging_site
from support.tiny_t5 import CHECKPOINT as TINY_T5
from support.trtllm_sites import TrtllmSite, trtllm_site
from support.trtllm_tools.install import Tools, install

pytestmark = pytest.mark.timeout(1200)

VERSION = "1.2.1"
HIDDEN = 128
"""Of the small LLaVA's language model."""

TEXTS = [
    text for at, text in enumerate(("a red square", "zwei Kreise", "三"), 3) for _ in range(at)
]


def quantized_llava(folder: Path) -> TrtllmSite:
    import torch  # noqa: PLC0415 (seconds)
    from safetensors.torch import load_file  # noqa: PLC0415

    source = copied("tiny-llava", folder / "source")
    torch.save(load_file(source / SINGLE), source / "pytorch_model.bin")
    (source / SINGLE).unlink()
    (source / "tokenizer.json").unlink()
    train("llama", TEXTS, source / "tokenizer.model")
    ends = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    write_config(source, tokenizer_class="LlamaTokenizer", **ends)
    tensors = pair(LLAMA, rank=2, source=HIDDEN, target=HIDDEN, module="self_attn.q_proj")
    adapter = str(write_adapter(folder / "adapter", tensors, rank=2))
    facts = inspect(source, InspectOptions(allow_pickle=True))
    claim = {"persistentVolumeClaim": {"claimName": "adapters"}}
    engine = {"quantization": "FP8", "lora": [{"name": "one", "source": claim}]}
    complete = planned(
        "llava", engine, version=VERSION, facts=with_adapters(facts, [("one", adapter)])
    )
    assert not complete.errors, complete.errors
    assert complete.build_plan
    store = folder / "store"
    store.mkdir()
    plan = sourced(complete.build_plan, {"one": adapter})
    return TrtllmSite(str(source), store, plan, complete, _tools(folder))


def whisper(folder: Path) -> TrtllmSite:
    """Return a Whisper as Hugging Face has it, which OpenAI's converter does not read."""
    folder.mkdir(parents=True)
    site = trtllm_site(folder / "whisper", _tools(folder), "whisper")
    # Its weights are hollow: a plan whose parts no class has is not compared with one.
    facts = site.plan.facts.model_copy(update={"vision": facts_of("llava").vision})
    return replace(site, plan=site.plan.model_copy(update={"facts": facts}))


def _tools(folder: Path) -> Tools:
    return install(folder / "tools", VERSION)


Either = Site | StagingSite | TrtllmSite

STORE_BYTES = 64 * 1024 * 1024
SECONDS = 300
"""An export with torch, on a machine that does other things too."""

INSIDE, AFTER = "[{}] $ ", "{}: done in"
# Every step is started two or three times: 135 s of a core with adapters, which took six minutes on
# a machine that had work for six cores more.
OTHERS = ("reference", "text", "staged", "adapters", "whisper")


@pytest.fixture
def undisturbed(request: pytest.FixtureRequest, tmp_path: Path) -> Either:
    if request.param == "t5":
        folder = tmp_path / "t5"
        folder.mkdir()
        return trtllm_site(folder, _tools(folder), "t5", source=TINY_T5)
    if request.param == "staged":
        return staging_site(tmp_path / "staged", source=write("qwen2-vl", tmp_path / "source"))
    if request.param == "adapters":
        return quantized_llava(tmp_path / "adapters")
    if request.param == "text":
        return text_site(tmp_path / "text")
    if request.param == "whisper":
        return whisper(tmp_path / "whisper")
    site: Site = request.getfixturevalue("vision_site")
    return site


def text_site(folder: Path) -> Site:
    store = folder / "store"
    store.mkdir(parents=True)
    return Site(TINY_T5, plan_of(inspect(TINY_T5, InspectOptions())), store)


def run(site: Either, *, kill_at: str = "") -> BuildResult | None:
    folder = tempfile.mkdtemp(prefix="mm-word-")
    try:
        word = Path(folder) / "termination-log"
        own = site.environment if isinstance(site, TrtllmSite) else None
        return run_builder(site.arguments, word, environment=own, kill_at=kill_at, seconds=SECONDS)
    finally:
        shutil.rmtree(folder)


def files_of(site: Either) -> dict[str, str]:
    """Return path -> digest of what the engine serves from; logs hold times."""
    manifest = manifests.read(site.paths.manifest)
    manifests.verify(site.paths.engine, manifest)
    return {file.path: file.sha256 for file in manifest.files if not file.path.startswith("build/")}


def _finished(site: Either) -> list[StepRecord]:
    journal = Journal(site.paths.journal)
    return [record for one in steps(site.plan) if (record := journal.finished(one))]


@pytest.mark.parametrize(
    ("undisturbed", "moments"),
    [
        pytest.param("t5", (INSIDE,), id="inside"),
        pytest.param("t5", (AFTER,), id="boundary", marks=pytest.mark.slow),
        *(pytest.param(one, (INSIDE, AFTER), id=one, marks=pytest.mark.slow) for one in OTHERS),
    ],
    indirect=["undisturbed"],
)
def test_killed_at_every_step(
    undisturbed: Either, tmp_path: Path, moments: tuple[str, ...]
) -> None:
    names = [step.name for step in steps(undisturbed.plan)]
    site = replace(undisturbed, store=tmp_path / "store-killed" / "store")
    site.store.mkdir(parents=True)
    finished = _finished(site)
    # After the last one only the manifest is left to write.
    last = (AFTER, names[-1])
    for moment, step in ((one, name) for name in names for one in moments if (one, name) != last):
        assert run(site, kill_at=moment.format(step)) is None
        assert not site.paths.engine.exists()
        found = _finished(site)
        assert found[: len(finished)] == finished
        finished = found
    result = run(site)
    assert result is not None
    assert (result.failure, list(result.step_seconds)) == (None, names)
    assert manifests.read(site.paths.manifest).steps[: len(finished)] == finished
    assert len(finished) >= len(names) - 1
    run(undisturbed)
    assert files_of(undisturbed) == files_of(site)


@pytest.mark.slow
@pytest.mark.parametrize("undisturbed", ["t5", *OTHERS], indirect=True)
def test_disk_full_at_every_step(undisturbed: Either, tmp_path: Path) -> None:
    names = [step.name for step in steps(undisturbed.plan)]
    with small_disk(tmp_path / "disk", STORE_BYTES) as disk:
        site = replace(undisturbed, store=disk)
        for before in ("", *names[:-1]):
            if before:
                run(site, kill_at=f"{before}: done in")
            filler = fill(disk)
            result = run(site)
            assert result is not None
            assert result.failure is not None
            assert result.failure.reason is BuildReason.STORE_NOT_WRITABLE
            assert result.failure.retryable
            assert not site.paths.engine.exists()
            filler.unlink()
        result = run(site)
        assert result is not None
        assert result.failure is None
        run(undisturbed)
        assert files_of(undisturbed) == files_of(site)


@pytest.mark.parametrize("undisturbed", ["t5"], indirect=True)
def test_the_exit_code_says_no_room(undisturbed: TrtllmSite, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", STORE_BYTES) as disk:
        site = replace(undisturbed, store=disk)
        filler = fill(disk)
        _, code = site.build()
        filler.unlink()
    assert code is ExitCode.STORE_NOT_WRITABLE


@pytest.mark.slow
def test_no_step_is_missing(tmp_path: Path) -> None:
    """A step that is added must be killed and starved here, or beside it, as well."""
    sites = (
        staging_site(tmp_path / "staged"),
        quantized_llava(tmp_path / "adapters"),
        whisper(tmp_path / "whisper"),
        text_site(tmp_path / "text"),
    )
    survived = {step.module for site in sites for step in steps(site.plan)}
    folder = Path(commands.__file__).parent
    known = {
        f"{commands.__name__}.{path.stem}"
        for path in folder.glob("*.py")
        if "    run_step(" in path.read_text()
    }
    vision = {"export_vision", "verify_vision", "build_vision"}  # of the Reference engine
    assert {f"{commands.__name__}.{name}" for name in vision} == known - survived
