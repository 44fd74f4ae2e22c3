"""The repository's files: their text is golden, Triton's own parser reads it, the parts agree."""

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

import pytest
from google.protobuf import text_format  # type: ignore[import-untyped]  # no stubs
from tritonclient.grpc import model_config_pb2

from mm_api.documents.engine_manifest import EngineManifest
from mm_api.documents.server_state import Role
from mm_api.documents.serving_plan import ServingPlan
from mm_runtime.errors import PermanentError
from mm_runtime.repository import llm_api
from mm_runtime.repository.layout import MODEL_NAMES, SHIPPED, layout
from mm_runtime.repository.write import model_sources, write_repository
from support.build_plans import serving_plan
from support.cases import cases
from support.documents import manifest
from support.golden import Golden

ENGINE = PurePath("/mnt/store/engines/0123")
SERVING = PurePath("/etc/multimodal/serving.json")
ADAPTERS = PurePath("/var/lib/multimodal/adapters")
GATEWAYS = {"token_ensemble", "scored_ensemble"}
SOURCES = {name: f"# {name}\n" for name in SHIPPED}


def files(*, dtype: str = "float16", role: Role = Role.SERVER, **serving: Any) -> dict[str, str]:
    engine = manifest(dtype=dtype)
    return laid(engine, serving_plan(engine.fingerprint, **{"bls_instances": 4, **serving}), role)


def laid(engine: EngineManifest, serving: ServingPlan, role: Role) -> dict[str, str]:
    places = {"engine_dir": ENGINE, "serving_plan": SERVING, "adapters": ADAPTERS}
    return layout(engine, serving, **places, sources=SOURCES, role=role)


def parse(text: str) -> Any:
    return text_format.Parse(text, model_config_pb2.ModelConfig())


def entries(text: str) -> set[str]:
    found, steps = set(), parse(text)
    for number, step in enumerate(steps.ensemble_scheduling.step):
        named = f"step {number} {step.model_name} version {step.model_version}"
        found |= {named}
        found |= {f"{named} reads {key} from {name}" for key, name in step.input_map.items()}
        found |= {f"{named} writes {key} to {name}" for key, name in step.output_map.items()}
    steps.ClearField("ensemble_scheduling")
    for field, value in steps.ListFields():
        for one in value if field.is_repeated else [value]:
            shown = (
                text_format.MessageToString(one, as_one_line=True) if field.message_type else one
            )
            found.add(f"{field.name} {shown}")
    return found


@pytest.fixture(params=MODEL_NAMES)
def model(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_files_are_golden(golden: Golden) -> None:
    found = files()
    golden.check("tree.txt", "".join(f"{path}\n" for path in sorted(found)))
    for name in MODEL_NAMES:
        golden.check(f"{name}.pbtxt", found[f"{name}/config.pbtxt"])
    plain = entries(found["ensemble/config.pbtxt"])
    for name in sorted(GATEWAYS):
        other = entries(found[f"{name}/config.pbtxt"])
        signs = [*(("-", one) for one in plain - other), *(("+", one) for one in other - plain)]
        lines = sorted(signs, key=lambda line: (line[1], line[0]))
        golden.check(f"{name}.differences.txt", "".join(f"{' '.join(one)}\n" for one in lines))


def test_encoders_serve_one_model(golden: Golden) -> None:
    found = files(role=Role.ENCODER)
    assert sorted(found) == ["vision_encoder/1/model.py", "vision_encoder/config.pbtxt"]
    golden.check("vision_encoder.pbtxt", found["vision_encoder/config.pbtxt"])


def _text_only(role: Role = Role.SERVER) -> dict[str, str]:
    engine = manifest()
    spec = engine.plan.engine.model_copy(update={"vision": None})
    engine = engine.model_copy(update={"plan": engine.plan.model_copy(update={"engine": spec})})
    return laid(engine, serving_plan(engine.fingerprint), role)


def test_text_only_engines_have_no_encoders_pod() -> None:
    with pytest.raises(PermanentError, match="llava has no vision encoder"):
        _text_only(Role.ENCODER)


def test_text_only_engines_have_no_encoder() -> None:
    found = _text_only()
    assert not [path for path in found if "multimodal_encoders" in path]
    steps = parse(found["ensemble/config.pbtxt"]).ensemble_scheduling.step
    read = {tensor for step in steps for tensor in step.input_map.values()}
    made = {tensor for step in steps for tensor in step.output_map.values()}
    given = {tensor.name for tensor in parse(found["ensemble/config.pbtxt"]).input}
    assert set() == read - made - given
    assert set() == {tensor for tensor in made - read if tensor.startswith("_")}


def test_tritons_parser_reads_it(model: str) -> None:
    config = parse(files()[f"{model}/config.pbtxt"])
    runs_on = (config.platform, config.backend)
    assert runs_on == (("ensemble", "") if model == "ensemble" else ("", "python"))
    batch = 1 if model == "tensorrt_llm_bls" else 8
    assert (model, batch) == (config.name, config.max_batch_size)


def test_bls_without_processes_is_left_out() -> None:
    assert not [path for path in files(bls_instances=0) if path.startswith("tensorrt_llm_bls/")]


KNOBS = {
    "max_queue_delay_microseconds": 20_000,
    "preprocessing_instance_count": 3,
    "postprocessing_instance_count": 2,
    "bls_instances": 7,
}


@cases(
    "model delay count ordered",
    {
        "preprocessing": ("preprocessing", 20_000, 3, False),
        "encoder": ("multimodal_encoders", 0, 1, False),
        "language-model": ("tensorrt_llm", 20_000, 1, False),
        "postprocessing": ("postprocessing", 0, 2, True),
        "bls": ("tensorrt_llm_bls", 0, 7, False),
    },
)
def test_knobs_of_fill_template(model: str, delay: int, count: int, *, ordered: bool) -> None:
    config = parse(files(**KNOBS)[f"{model}/config.pbtxt"])
    assert [count] == [group.count for group in config.instance_group]
    batching = config.dynamic_batching
    assert (delay, ordered) == (batching.max_queue_delay_microseconds, batching.preserve_ordering)


def test_only_what_streams_is_decoupled(model: str) -> None:
    """One request, many responses: only where tokens are made, and where they are passed on."""
    config = parse(files()[f"{model}/config.pbtxt"])
    expected = model in {"tensorrt_llm", "tensorrt_llm_bls"}
    assert expected == config.model_transaction_policy.decoupled


@pytest.mark.parametrize(
    ("chains", "ensembles"),
    [(4, GATEWAYS), (0, {"ensemble", *GATEWAYS})],
    ids=["with-bls", "without-bls"],
)
def test_models_answer_at_once_where_no_client_streams(chains: int, ensembles: set[str]) -> None:
    """What is not decoupled takes ModelInfer: one process a request; the gateway's still stream."""
    found = files(streaming=False, bls_instances=chains)
    configs = {
        path.partition("/")[0]: parse(text)
        for path, text in found.items()
        if path.endswith("/config.pbtxt")
    }
    decoupled = {
        name for name, config in configs.items() if config.model_transaction_policy.decoupled
    }
    assert {"tensorrt_llm"} == decoupled
    assert ensembles == {name for name, one in configs.items() if one.platform == "ensemble"}
    assert {name: one.name for name, one in configs.items()} == {name: name for name in configs}
    chained = configs["ensemble"]
    assert [chains][: bool(chains)] == [group.count for group in chained.instance_group]
    assert _tensors(chained.input) == _tensors(parse(files()["ensemble/config.pbtxt"]).input)
    assert _tensors(chained.output) == _tensors(parse(files()["ensemble/config.pbtxt"]).output)


def _tensors(side: Any) -> dict[str, int]:
    return {tensor.name: tensor.data_type for tensor in side}


def test_ensemble_tensors_agree_from_end_to_end() -> None:
    configs = {name: parse(files()[f"{name}/config.pbtxt"]) for name in MODEL_NAMES}
    made = _tensors(configs["ensemble"].input)
    for step in configs["ensemble"].ensemble_scheduling.step:
        inputs = _tensors(configs[step.model_name].input)
        outputs = _tensors(configs[step.model_name].output)
        read = {name: made[source] for name, source in step.input_map.items()}
        assert read == {name: inputs[name] for name in step.input_map}
        made |= {target: outputs[name] for name, target in step.output_map.items()}
    ensemble_outputs = _tensors(configs["ensemble"].output)
    assert ensemble_outputs == {name: made[name] for name in ensemble_outputs}


@pytest.mark.parametrize("streaming", [True, False], ids=["streaming", "at-once"])
def test_the_gateways_ensemble_names_what_the_gateway_reads(*, streaming: bool) -> None:
    """Tokens and their number: Triton queries the language model for all that an ensemble names."""
    found = parse(files(streaming=streaming)["token_ensemble/config.pbtxt"])
    last = found.ensemble_scheduling.step[-1]
    read = {"output_ids", "sequence_length"}
    assert (last.model_name, set(last.output_map)) == ("tensorrt_llm", read)
    assert read == {one.name for one in found.output}


def test_required_inputs_are_connected() -> None:
    configs = {name: parse(files()[f"{name}/config.pbtxt"]) for name in MODEL_NAMES}
    for step in configs["ensemble"].ensemble_scheduling.step:
        required = {t.name for t in configs[step.model_name].input if not t.optional}
        assert required <= set(step.input_map)


def test_odd_dtypes_are_refused() -> None:
    with pytest.raises(PermanentError, match="'int8' is not one of float16, bfloat16, float32"):
        files(dtype="int8")


def test_models_are_shipped() -> None:
    sources = model_sources()
    assert set(sources) == {*MODEL_NAMES, "vision_encoder"} - {"ensemble"}
    assert all("class TritonPythonModel" in source for source in sources.values())


def _tree(directory: Path) -> Iterator[str]:
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            yield path.relative_to(directory).as_posix()


@cases(
    "before",
    {
        "nothing": {},
        "an-older-repository": {"repository/old/config.pbtxt": "x"},
        "a-killed-attempt": {".repository.new/half": "x"},
    },
)
def test_repository_is_replaced_at_once(tmp_path: Path, before: Mapping[str, str]) -> None:
    for name, content in before.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(content)
    write_repository(tmp_path / "repository", {"m/config.pbtxt": "a", "m/1/model.py": "b"})
    assert list(_tree(tmp_path)) == ["repository/m/1/model.py", "repository/m/config.pbtxt"]


def test_upstreams_model_answers_where_it_takes_images(tmp_path: Path) -> None:
    upstream = tmp_path / "triton_backend" / "all_models" / "llmapi" / "tensorrt_llm"
    (upstream / "1").mkdir(parents=True)
    for name in ("1/helpers.py", "config.pbtxt"):
        (upstream / name).touch()
    for own in ("# upstream's", "def _build_multimodal_prompt"):
        (upstream / "1" / "model.py").write_text(own)
        files = llm_api.layout("{}", Path("/serving.json"), 8003, tmp_path)
        assert (files["tensorrt_llm/1/served.py"] == own) is own.startswith("def")
        config = parse(files["tensorrt_llm/config.pbtxt"])
        assert config.parameters["serving_plan"].string_value == "/serving.json"
