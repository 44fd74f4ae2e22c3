"""A fingerprint changes with every field of the engine, and with nothing else."""

from typing import Any

from mm_api.documents.lora_adapter import LoraAdapter
from mm_api.documents.model_facts import AdapterFacts, LoraFacts
from mm_api.documents.trtllm_build import Command, EngineCommand, GpuModel, TrtllmBuild
from mm_operator.digests import canonical_json, digest
from mm_operator.plan.engine.documents import engine_fingerprint
from support.cases import cases
from support.model_configs import planned_engine, reference_inputs, reference_plan
from support.models import tiny_facts

BASE = "279716112327450d"


def fingerprint(changes: dict[str, Any], builder: str = "1", **facts: Any) -> str:
    made = planned_engine(reference_inputs(tiny_facts(**facts), changes, builder=builder))
    return made.build_plan.fingerprint


def test_fingerprint_is_stable() -> None:
    assert fingerprint({})[:16] == BASE


@cases(
    "changes",
    {
        "batch": {"engine": {"maxBatchSize": 4}},
        "sequence": {"engine": {"maxSeqLen": 100}},
        "dtype": {"engine": {"dtype": "float16"}},
        "vision-batch": {"vision": {"maxBatchSize": 3}},
    },
)
def test_engine_fields_change_it(changes: dict[str, Any]) -> None:
    assert fingerprint(changes)[:16] != BASE


@cases(
    "changes",
    {
        "replicas": {"replicas": 3},
        "concurrency": {"runtime": {"maxConcurrency": 5}},
        "gateway": {"gateway": {"maxImagePixels": 5}},
        "timeout": {"build": {"timeout": "1h"}},
    },
)
def test_other_fields_do_not(changes: dict[str, Any]) -> None:
    assert fingerprint(changes)[:16] == BASE


def test_builder_and_source_change_it() -> None:
    other = "sha256:" + "f" * 64
    assert len({fingerprint({}), fingerprint({}, "2"), fingerprint({}, source_digest=other)}) == 3


def _commands(**changes: Any) -> TrtllmBuild:
    gpu = GpuModel(product="NVIDIA-L40S", memory_bytes=48 << 30, compute_capability="8.9")
    build = TrtllmBuild(
        version="0.20.0",
        gpu=gpu,
        convert=Command(argv=["convert"]),
        engines=[EngineCommand(name="llm", argv=["trtllm-build"])],
    )
    return build.model_copy(update=changes)


@cases(
    "changes same",
    {
        "version": ({"version": "0.21.0"}, False),
        "convert": ({"convert": Command(argv=["quantize"])}, False),
        "flags": ({"engines": [EngineCommand(name="llm", argv=["trtllm-build", "-v"])]}, False),
        "gpu": (
            {"gpu": GpuModel(product="NVIDIA-H200", memory_bytes=1, compute_capability="9.0")},
            False,
        ),
        "gpu-memory": (
            {"gpu": GpuModel(product="NVIDIA-L40S", memory_bytes=1, compute_capability="8.9")},
            True,
        ),
        "adapters": ({"lora": [LoraAdapter(name="a", uid=0, source="/a")]}, False),
    },
)
def test_commands_are_covered(changes: dict[str, Any], *, same: bool) -> None:
    made = planned_engine(reference_inputs(tiny_facts()))
    engine = made.build_plan.engine
    found = engine_fingerprint(engine, _commands(**changes))
    assert (found == engine_fingerprint(engine, _commands()), found[:16] == BASE) == (same, False)


def test_adapters_of_the_reference_engine_are_covered() -> None:
    """What an adapter holds changes the engine, where it lies does not; facts must report it."""

    def made(digest_of: str, path: str) -> str:
        source = {"persistentVolumeClaim": {"claimName": "adapters", "path": path}}
        lora = LoraFacts(
            adapters=[AdapterFacts(name="french", source_digest=f"sha256:{digest_of * 64}")],
            modules={"llm": ["attn_q"]},
            rank=4,
        )
        return fingerprint({"engine": {"lora": [{"name": "french", "source": source}]}}, lora=lora)

    assert made("a", "here") == made("a", "there")
    assert len({BASE, made("a", "here")[:16], made("b", "here")[:16]}) == 3


def test_adapters_must_be_inspected() -> None:
    """Facts of the checkpoint alone do not say whether an adapter fits."""
    source = {"persistentVolumeClaim": {"claimName": "adapters"}}
    changes = {"engine": {"lora": [{"name": "french", "source": source}]}}
    (refused,) = reference_plan(tiny_facts(), changes).errors
    assert (refused.code, refused.path) == ("LoraNotInspected", "spec.engine.lora")


def test_key_order_does_not_matter() -> None:
    assert (
        canonical_json({"b": 1, "a": "ü"}),
        digest({"b": 1, "a": 2}) == digest({"a": 2, "b": 1}),
    ) == ('{"a":"\\u00fc","b":1}', True)
