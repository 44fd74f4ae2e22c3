"""Small engines of text or audio are queried by their build, and keep what they are sure of."""

from pathlib import Path

import pytest
import torch
from transformers import WhisperFeatureExtractor, WhisperForConditionalGeneration
from transformers.generation import GenerationMixin

from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.engine_manifest import EngineManifest
from mm_api.golden import MOST_WEIGHT_BYTES, golden_answer_bytes, records_golden_answer
from mm_runtime.engine_build.build_paths import BuildPaths
from mm_runtime.engine_build.commands import golden_prompt
from mm_runtime.engine_build.memory_limit import memory_limit
from mm_runtime.engine_build.steps import steps
from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.preprocess.audio.spectrogram import SAMPLE_RATE
from mm_runtime.serving.preprocess.audio.tones import sample_audio
from support.families import texts
from support.families.pipeline import Pipeline, build, plan_of
from support.families.words import tokenizer
from support.killed_builders import run_builder
from support.model_configs import facts_of
from support.tiny_t5 import CHECKPOINT


def plan_for(family: str, *, backend: str = "Reference", weight_bytes: int = 1 << 20) -> BuildPlan:
    """Return the plan of a family's published model, as if it had so many bytes."""
    plan = plan_of(facts_of(family).model_copy(update={"weight_bytes": weight_bytes}))
    return plan.model_copy(update={"engine": plan.engine.model_copy(update={"backend": backend})})


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        pytest.param(plan_for("t5"), True, id="text"),
        pytest.param(plan_for("bart", weight_bytes=MOST_WEIGHT_BYTES), True, id="as-large-as-may"),
        pytest.param(plan_for("bart", weight_bytes=MOST_WEIGHT_BYTES + 1), False, id="too-large"),
        pytest.param(plan_for("llava"), True, id="images"),
        pytest.param(plan_for("whisper"), True, id="audio"),
        pytest.param(plan_for("t5", backend="TensorRT"), False, id="needs-a-gpu"),
        pytest.param(plan_for("llava", backend="PyTorch"), False, id="trtllm-serve"),
    ],
)
def test_what_can_be_requested_is_requested(plan: BuildPlan, *, expected: bool) -> None:
    """What a build can run within an export's memory; without images in a step of its own."""
    assert expected == records_golden_answer(plan)
    if plan.engine.backend == "Reference":
        alone = expected and plan.engine.vision is None
        assert alone == ("golden-prompt" in {step.name for step in steps(plan)})


@pytest.mark.timeout(600)
def test_the_answer_is_the_engines_own(tmp_path: Path) -> None:
    """A build killed while it queried ends with what the served engine answers, greedily."""
    directory = _built_after_a_kill(CHECKPOINT, tmp_path)

    golden = EngineManifest.from_json((directory.root / "manifest.json").read_bytes()).golden
    assert golden is not None
    assert (golden.images, golden.audio_clips) == (0, None)
    pipeline = Pipeline.load(directory)
    try:
        answer = pipeline.query(golden.text)[: len(golden.tokens)]
    finally:
        pipeline.loaded.engine.stop()
    assert golden.tokens == answer
    assert golden.answer == pipeline.preprocessor.codec.decode(answer)


@pytest.mark.timeout(600)
def test_what_is_transcribed_is_what_transformers_transcribes(tmp_path: Path) -> None:
    """A build of a Whisper keeps the first tokens that transformers writes down of its audio."""
    checkpoint = texts.write("whisper", tmp_path / "checkpoint")
    directory = _built_after_a_kill(checkpoint, tmp_path)

    golden = EngineManifest.from_json((directory.root / "manifest.json").read_bytes()).golden
    assert golden is not None
    assert (golden.images, golden.audio_clips) == (0, 1)
    words = tokenizer(texts.RECEIVED, texts.TIMES)
    prefix = words(golden.text, add_special_tokens=False)["input_ids"]
    begun = [*(texts.RECEIVED[at] for at in (0, 1, 3)), texts.TIMES[0]]
    assert [words.decode(one) for one in prefix] == begun
    extractor = WhisperFeatureExtractor.from_pretrained(checkpoint)
    # Whisper's own generate() cuts audio into windows; this is the one below it.
    answer = GenerationMixin.generate(
        WhisperForConditionalGeneration.from_pretrained(checkpoint).eval(),
        **extractor(sample_audio(), sampling_rate=SAMPLE_RATE, return_tensors="pt"),
        decoder_input_ids=torch.tensor([prefix]),
        max_new_tokens=len(golden.tokens),
        do_sample=False,
    )[0].tolist()[len(prefix) :]
    assert golden.tokens == answer
    assert golden.answer == words.decode(answer, skip_special_tokens=True)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({"memory.max": "536870912\n"}, 512 << 20, id="v2"),
        pytest.param({"memory.max": "max\n"}, None, id="v2-without"),
        pytest.param({"memory/memory.limit_in_bytes": "536870912\n"}, 512 << 20, id="v1"),
        pytest.param({}, None, id="hidden"),
    ],
)
def test_the_limit_of_a_container_is_known(
    tmp_path: Path, files: dict[str, str], expected: int | None
) -> None:
    """Both versions of control groups say it in a file of their own."""
    for name, text in files.items():
        path = tmp_path / "sys" / "fs" / "cgroup" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    assert expected == memory_limit(tmp_path)


@pytest.mark.parametrize(
    ("spare", "requested"),
    [pytest.param(0, True, id="fits"), pytest.param(-1, False, id="too-little")],
)
def test_a_tight_limit_costs_the_answer_and_not_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spare: int, *, requested: bool
) -> None:
    """The kernel would kill the step that queries, and the build with it."""
    limit = golden_answer_bytes(plan_of(inspect(CHECKPOINT, InspectOptions()))) + spare
    monkeypatch.setattr(golden_prompt, "memory_limit", lambda: limit)
    engine = build(CHECKPOINT, tmp_path, requested=True)
    assert requested == (engine.manifest.golden is not None)


def _built_after_a_kill(checkpoint: Path, folder: Path) -> EngineDirectory:
    """Return the engine of a build that was killed while it requested, and begun again."""
    plan = plan_of(inspect(checkpoint, InspectOptions()))
    path, store, word = folder / "plan.json", folder / "store", folder / "word"
    path.write_text(plan.to_json())
    arguments = ["build", "--plan", str(path), "--source", str(checkpoint), "--store", str(store)]
    run_builder(arguments, word, kill_at="step 3/4 golden-prompt")
    result = run_builder(arguments, word)
    assert result is not None
    assert list(result.step_seconds) == ["fetch", "verify-weights", "golden-prompt", "evaluation"]
    return EngineDirectory.open(BuildPaths(store, plan.fingerprint).engine)
