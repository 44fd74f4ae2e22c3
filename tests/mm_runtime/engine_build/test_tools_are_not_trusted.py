"""A tool that ends with 0 may still be wrong, and one that fails may say why."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mm_api.contract import ExitCode
from mm_api.documents.build_result import BuildReason
from mm_api.documents.trtllm_build import TrtllmBuild
from mm_runtime.engine_build.commands.check_tools import check_tools
from mm_runtime.engine_build.commands.step import StepContext
from mm_runtime.engine_build.journal import JournalFile
from mm_runtime.engine_build.receipt import ToolReport
from support.cases import cases
from support.trtllm_sites import TrtllmSite, trtllm_site, use_site
from support.trtllm_tools.install import install, write_program

pytestmark = pytest.mark.usefixtures("quick_builds")

BY_HAND_SECONDS = 120
H100 = "NVIDIA-H100-80GB-HBM3"
BUILT = "build/engines/llm"
SAVES = f'#!/bin/sh\n{{original}} "$@" && cd {BUILT} && '
"""A tool that works, and then changes what it wrote."""


def llava(folder: Path) -> TrtllmSite:
    tools = install(folder / "tools", "0.20.0")
    return trtllm_site(folder, tools, "llava")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TrtllmSite:
    return use_site(monkeypatch, llava(tmp_path))


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> TrtllmSite:
    made = llava(tmp_path_factory.mktemp("converted"))
    with pytest.MonkeyPatch.context() as patch:
        use_site(patch, made)
        with spoilt(made, "#!/bin/sh\nexit 1\n"):
            assert failed(made)[1] == "build-llm"
    return made


def spoil(site: TrtllmSite, text: str) -> None:
    program = site.tools.script("trtllm-build")
    original = program.with_name("trtllm-build-original")
    shutil.copy(program, original)
    write_program(program, text.replace("{original}", str(original)))


@contextmanager
def spoilt(site: TrtllmSite, text: str) -> Iterator[None]:
    program = site.tools.script("trtllm-build")
    right = program.read_text()
    spoil(site, text)
    yield
    write_program(program, right)


def failed(site: TrtllmSite, **options: float) -> tuple[BuildReason, str, str, bool]:
    result, _ = site.build(**options)
    assert result.failure is not None
    assert not site.paths.engine.exists()
    failure = result.failure
    return failure.reason, failure.step, failure.message, failure.retryable


@cases(
    "script words retryable",
    {
        "nothing": ("#!/bin/sh\nexit 0\n", "did not write engine/llm", True),
        "empty": (SAVES + ": > rank0.engine", "left engine/llm/rank0.engine empty", True),
        "rank": (SAVES + "cp rank0.engine rank1.engine", "holds 2 ranks; the plan has 1", False),
        "other-rank": (
            SAVES + "mv rank0.engine rank1.engine",
            "did not write engine/llm/rank0.engine; it wrote config.json, rank1.engine",
            True,
        ),
        "limit": (
            SAVES + 'sed -i \'s/"max_batch_size": 8/"max_batch_size": 4/\' config.json',
            "says build_config.max_batch_size = 4; the plan says 8",
            False,
        ),
        "version": (
            SAVES + "sed -i 's/0.20.0/0.19.0/' config.json",
            "says version = 0.19.0; the plan says 0.20.0",
            False,
        ),
        "dtype": (
            SAVES + "sed -i 's/float16/bfloat16/' config.json",
            "says pretrained_config.dtype = bfloat16; the plan says float16",
            False,
        ),
        "json": (SAVES + "echo '[' > config.json", "is not a JSON object", False),
        "unknown-flag": (
            '#!/bin/sh\nexec {original} --no_such_flag "$@"\n',
            "refuses its arguments: trtllm-build: error: unrecognized arguments: --no_such_flag",
            False,
        ),
        "disk-full": (
            "#!/bin/sh\necho 'OSError: [Errno 28] No space left on device'\nexit 1\n",
            "no space left: the store at",
            True,
        ),
        "code-of-ours": ("#!/bin/sh\necho broken; exit 3\n", "broken", True),
        "first-error-pages-above": (
            "#!/bin/sh\necho '[TensorRT-LLM][ERROR] no kernel'; seq 50; exit 1\n",
            "Step build-llm: [TensorRT-LLM][ERROR] no kernel",
            True,
        ),
    },
)
def test_spoilt_tool_is_noticed(
    converted: TrtllmSite,
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    words: str,
    *,
    retryable: bool,
) -> None:
    with spoilt(use_site(monkeypatch, converted), script):
        reason, step, message, again = failed(converted)
    expected = BuildReason.STORE_NOT_WRITABLE if "no space" in words else BuildReason.STEP_FAILED
    assert (expected, "build-llm", retryable) == (reason, step, again)
    assert words in message


def test_a_repaired_tool_continues(site: TrtllmSite) -> None:
    program = site.tools.script("trtllm-build")
    right = program.read_text()
    spoil(site, "#!/bin/sh\nexit 0\n")
    failed(site)
    done = JournalFile.from_json(site.paths.journal.read_bytes()).entries
    write_program(program, right)
    result, code = site.build()
    assert (code, result.failure) == (ExitCode.OK, None)
    before = ["check-tools", "fetch", "convert"]
    assert [entry.record.name for entry in done] == before
    assert all(result.step_seconds[one.record.name] == one.record.seconds for one in done)


@pytest.mark.slow
def test_a_tool_that_hangs_is_ended(converted: TrtllmSite, monkeypatch: pytest.MonkeyPatch) -> None:
    with spoilt(use_site(monkeypatch, converted), "#!/bin/sh\nsleep 1000\n"):
        reason, step, message, again = failed(converted, step_seconds=5)
    assert (reason, step, again) == (BuildReason.STEP_FAILED, "build-llm", True)
    assert "not finished after 5 s" in message


@pytest.mark.slow
def test_a_flood_is_bounded(site: TrtllmSite) -> None:
    """A tool that prints a gigabyte fills no disk, and its last words are kept."""
    spoil(
        site,
        "#!/bin/sh\nline=$(head -c 4000 /dev/zero | tr '\\0' x)\n"
        'yes "$line" | head -c 1000000000\necho\necho last words\n{original} "$@"\n',
    )
    result, code = site.build(step_seconds=300)
    log = site.paths.engine / "build" / "build-llm.log"
    assert (code, result.failure) == (ExitCode.OK, None)
    assert log.stat().st_size < 1_100_000
    assert "bytes cut here" in log.read_text()
    assert "last words" in log.read_text()


@cases(
    "change words",
    {
        "version": ({"version": "0.21.0"}, "has TensorRT-LLM 0.20.0; the plan"),
        "gpu": (
            {"gpu": {"product": "NVIDIA-L40S", "memoryBytes": 1, "computeCapability": "8.9"}},
            "The node has an NVIDIA-H100-80GB-HBM3 (9.0); the plan was made for NVIDIA-L40S (8.9)",
        ),
    },
)
def test_another_image_or_node_is_refused(
    site: TrtllmSite, change: dict[str, object], words: str
) -> None:
    """A plan for another TensorRT-LLM or GPU ends at its first step, before anything is copied."""
    assert site.plan.trtllm is not None
    reported = {**site.plan.trtllm.model_dump(by_alias=True), **change}
    plan = site.plan.model_copy(update={"trtllm": TrtllmBuild.model_validate(reported)})
    other = TrtllmSite(site.source, site.store, plan, site.planned, site.tools)
    reason, step, message, again = failed(other)
    assert (reason, step, again) == (BuildReason.STEP_FAILED, "check-tools", False)
    assert words in message


@cases(
    "planned sealed",
    {
        "shared": (f"{H100}-SHARED", f"{H100}-SHARED"),
        "slice": (f"{H100}-MIG-1g.10gb", f"{H100}-MIG-1g.10gb"),
        "numbers-of-the-spec": ("custom", H100),
    },
)
def test_a_gpu_may_have_a_longer_name_or_none(site: TrtllmSite, planned: str, sealed: str) -> None:
    """Labels of shared and cut GPUs say more than nvidia-smi; numbers in a spec have no name."""
    build = site.plan.trtllm
    assert build is not None
    gpu = build.gpu.model_copy(update={"product": planned})
    plan = site.plan.model_copy(update={"trtllm": build.model_copy(update={"gpu": gpu})})
    shutil.copytree(site.tools.root, site.paths.tree)
    check_tools(StepContext(plan, site.source, site.paths))

    report = ToolReport.from_json(site.paths.tools.read_bytes())
    assert (report.gpu.product, report.gpu.compute_capability) == (sealed, "9.0")


@cases(
    "take words",
    {
        "program": (
            lambda site: site.tools.script("trtllm-build").unlink(),
            "trtllm-build is not in the builder image",
        ),
        "script": (
            lambda site: shutil.rmtree(site.tools.root / "examples"),
            "has no examples/models/core/llama/convert_checkpoint.py",
        ),
        "no-gpu": (
            lambda site: write_program(site.tools.script("nvidia-smi"), "#!/bin/sh\nexit 9\n"),
            "nvidia-smi sees no GPU",
        ),
        "no-nvidia-runtime": (
            lambda site: site.tools.script("nvidia-smi").unlink(),
            "spec.build.runtimeClassName",
        ),
    },
)
def test_missing_parts_are_named(
    site: TrtllmSite, take: Callable[[TrtllmSite], object], words: str
) -> None:
    take(site)
    reason, step, message, again = failed(site)
    assert (reason, step, again) == (BuildReason.STEP_FAILED, "check-tools", False)
    assert words in message


def test_vilas_own_code_is_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No image holds the folder that the vision builder of VILA imports from."""
    tools = install(tmp_path / "tools", "0.20.0")
    site = use_site(monkeypatch, trtllm_site(tmp_path, tools, "vila"))
    (tools.root / "VILA").rmdir()

    _, step, message, again = failed(site)

    assert (step, again) == ("check-tools", False)
    assert "no folder VILA in TensorRT-LLM's root, which --vila_path names" in message


@pytest.mark.parametrize(
    ("family", "package"), [("qwen2-vl", "qwen-vl-utils"), ("vila", "s2wrapper")]
)
def test_a_package_of_the_builder_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str, package: str
) -> None:
    """What upstream's builder imports for a family is looked for before any GPU works."""
    tools = install(tmp_path / "tools", "0.20.0")
    site = use_site(monkeypatch, trtllm_site(tmp_path, tools, family))
    shutil.rmtree(next(tools.packages.glob(f"{package.replace('-', '_')}-*.dist-info")))

    _, step, message, again = failed(site)

    assert (step, again) == ("check-tools", False)
    assert f"no package {package}, which" in message


def test_a_person_can_repeat_it_by_hand(site: TrtllmSite) -> None:
    program = site.tools.script("trtllm-build")
    right = program.read_text()
    spoil(site, "#!/bin/sh\nexit 0\n")
    failed(site)
    write_program(program, right)
    own = str(Path(sys.executable).parent)  # in an image python3 is the one that has mm_runtime
    done = subprocess.run(
        ["sh", str(site.paths.reproduce)],
        env={**site.environment, "PATH": f"{own}:{site.environment['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=BY_HAND_SECONDS,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    made = {path.name for path in (site.paths.unfinished / "llm").iterdir()}
    assert made == {"config.json", "rank0.engine"}
    assert "llm, vision agree with the plan" in done.stdout
