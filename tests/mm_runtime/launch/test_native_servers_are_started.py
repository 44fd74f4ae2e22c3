"""Servers of TensorRT-LLM engines: one process a rank, adapters by their ids, the right image.

The processes themselves need NVIDIA's container; here is what they would be started with.
"""

import json
from pathlib import Path

import pytest

from mm_api.documents.serving_plan import MemoryPools
from mm_runtime.backends import BACKENDS
from mm_runtime.errors import PermanentError
from mm_runtime.launch.adapters import link_adapters
from mm_runtime.launch.arguments import ServerOptions, server_argv, world_argv
from mm_runtime.launch.backends import copy_backends, find_installation
from mm_runtime.launch.serve import ServeOptions, serve
from mm_runtime.settings import Ports
from support.native_engines import native_engine


@pytest.fixture
def container(tmp_path: Path) -> Path:
    """The folders of NVIDIA's image of Triton with TensorRT-LLM."""
    root = tmp_path / "opt" / "tritonserver"
    for name in (
        "bin/tritonserver",
        "backends/python/libtriton_python.so",
        "backends/python/triton_python_backend_utils.py",
        "backends/python/triton_python_backend_stub",
        "backends/tensorrtllm/libtriton_tensorrtllm.so",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return root


OPTIONS = ServerOptions(
    repository=Path("/var/lib/multimodal/repository"),
    backends=Path("/var/lib/multimodal/backends"),
    ports=Ports(),
    pools=MemoryPools(cuda_bytes=300_000_000, pinned_bytes=1 << 20, shm_bytes=1 << 20),
    exit_seconds=5,
    secret="closed",
)


def ranks_of(argv: tuple[str, ...]) -> list[list[str]]:
    text = " ".join(argv).removeprefix("mpirun --allow-run-as-root --oversubscribe ")
    return [part.removeprefix("-n 1 ").split() for part in text.split(" : ")]


def test_one_gpu_needs_no_mpirun(container: Path) -> None:
    installation = find_installation(container)
    assert server_argv(installation, OPTIONS) == world_argv(installation, OPTIONS, 1)


def test_a_server_for_each_rank(container: Path) -> None:
    """Rank 0 answers clients with every model; the others load the language model only."""
    commands = ranks_of(world_argv(find_installation(container), OPTIONS, 2))
    first, second = commands
    assert first == list(server_argv(find_installation(container), OPTIONS))
    alone = {"--model-control-mode=explicit", "--load-model=tensorrt_llm"}
    assert alone == set(second) - {word for word in second if word not in alone}
    assert alone.isdisjoint(first)


def test_ranks_do_not_share_ports(container: Path) -> None:
    commands = ranks_of(world_argv(find_installation(container), OPTIONS, 4))
    found = [
        word.partition("=")[2]
        for command in commands
        for word in command
        if word.startswith(("--http-port=", "--grpc-port=", "--metrics-port="))
    ]
    assert [len(found), len(set(found))] == [12, 12]


def test_the_pool_is_reserved_once(container: Path) -> None:
    """Only rank 0 has encoder outputs; a pool for each rank would take GPU 0's memory again."""
    commands = ranks_of(world_argv(find_installation(container), OPTIONS, 2))
    pools = [[word for word in one if "cuda-memory-pool" in word] for one in commands]
    assert pools == [["--cuda-memory-pool-byte-size=0:300000000"], []]


def test_ranks_do_not_share_memory_regions(container: Path) -> None:
    """Each has a prefix in /dev/shm, and all of them begin with the pod's, which is cleaned up."""
    commands = ranks_of(world_argv(find_installation(container), OPTIONS, 2))
    key = "--backend-config=python,shm-region-prefix-name="
    found = [word.removeprefix(key) for one in commands for word in one if word.startswith(key)]
    assert [OPTIONS.shm_prefix, f"{OPTIONS.shm_prefix}1_"] == found


def test_the_containers_backend_is_found(container: Path, tmp_path: Path) -> None:
    """The Python backend is copied, TensorRT-LLM's is used where it lies; again is the same."""
    installation = find_installation(container)
    for _ in range(2):
        copy_backends(installation, tmp_path / "backends")
    native = tmp_path / "backends" / "tensorrtllm"
    assert (container / "backends" / "tensorrtllm").resolve() == native.resolve()
    assert not (tmp_path / "backends" / "python").is_symlink()


def test_adapters_lie_by_their_ids(tmp_path: Path) -> None:
    """The language model's part of each adapter is a folder named by its id; the base has none."""
    built = tmp_path / "lora"
    reported = [
        {"name": "", "uid": -1},
        {"name": "red", "uid": 7, "engines": ["llm"]},
        {"name": "both", "uid": 9, "engines": ["decoder", "encoder"]},
    ]
    for name in ("red/llm", "both/decoder", "both/encoder"):
        (built / name).mkdir(parents=True)
    (built / "adapters.json").write_text(json.dumps(reported))
    (tmp_path / "by-id" / "3").mkdir(parents=True)  # of the engine before
    assert link_adapters(built, tmp_path / "by-id") == len(reported) - 1
    found = {one.name: one.resolve() for one in (tmp_path / "by-id").iterdir()}
    assert {"7": built / "red" / "llm", "9": built / "both" / "decoder"} == found


def test_no_adapters_no_folder(tmp_path: Path) -> None:
    """An engine without adapters leaves nothing of the one before."""
    (tmp_path / "by-id" / "3").mkdir(parents=True)
    assert link_adapters(tmp_path / "lora", tmp_path / "by-id") == 0
    assert not (tmp_path / "by-id").exists()


@pytest.mark.triton
def test_an_image_without_the_backend_is_named(tmp_path: Path) -> None:
    """The wheel's server cannot run TensorRT-LLM engines: said before anything is started."""
    manifest, serving = native_engine("llava")
    path = tmp_path / "manifest.json"
    path.write_text(manifest.to_json())
    options = ServeOptions(
        manifest=path,
        serving_path=tmp_path / "serving.json",
        serving=serving,
        repository=tmp_path / "repository",
        ports=Ports(),
    )
    with pytest.raises(PermanentError, match=r"no TensorRT-LLM backend.*spec\.runtime\.image"):
        serve(options, BACKENDS[options.serving.backend].prepare_server)
    assert not (tmp_path / "repository").exists()
