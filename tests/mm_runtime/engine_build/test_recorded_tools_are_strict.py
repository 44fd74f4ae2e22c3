"""The recorded tools take what their version takes, and nothing else."""

import json
import subprocess
from pathlib import Path

import pytest

from mm_operator.plan.engine.tables import flags_of, version_of
from support.cases import cases
from support.model_configs import FOLDERS, VERSIONS, planned, versions_of
from support.trtllm_sites import write_model
from support.trtllm_tools.install import Tools

DEADLINE_SECONDS = 60


def run(tools: Tools, *argv: str) -> tuple[int, str]:
    done = subprocess.run(
        argv,
        cwd=tools.root,
        env=tools.environment("/usr/bin:/bin"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=DEADLINE_SECONDS,
        check=False,
        text=True,
    )
    return done.returncode, done.stdout


def parsed(tools: Tools, program: str) -> set[str]:
    code, text = run(tools, *program.split(), "--help")
    assert code == 0
    return {word.strip("[],").removeprefix("--") for word in text.split() if word[:2] == "--"}


@pytest.mark.parametrize("version", VERSIONS)
def test_options_are_those_of_the_version(tool_sets: dict[str, Tools], version: str) -> None:
    expected = flags_of("trtllm-build", version_of(version)) | {"help"}
    assert expected == parsed(tool_sets[version], "trtllm-build")


@cases(
    "argv words",
    {
        "unknown": (["--no_such_flag", "1"], "unrecognized arguments"),
        "type": (["--max_batch_size", "many"], "invalid int value"),
        "choice": (["--gemm_plugin", "float8"], "invalid choice"),
        "switch-with-value": (["--context_fmha"], "expected one argument"),
        "kv-cache": (["--kv_cache_type", "none"], "invalid choice"),
        "lora-module": (["--lora_target_modules", "q_proj"], "invalid choice"),
    },
)
def test_wrong_arguments_end_with_two(
    tool_sets: dict[str, Tools], argv: list[str], words: str
) -> None:
    code, output = run(tool_sets["0.20.0"], "trtllm-build", *argv)
    assert code == 2
    assert words in output


def test_a_flag_of_a_later_version_is_refused(tool_sets: dict[str, Tools]) -> None:
    assert run(tool_sets["0.16.0"], "trtllm-build", "--dora_plugin", "enable")[0] == 2
    assert (
        run(tool_sets["0.18.2"], "trtllm-build", "--dora_plugin", "enable")[0] == 1
    )  # known, and no checkpoint was given


@pytest.mark.parametrize(
    ("family", "version"),
    [
        pytest.param(family, one, marks=[pytest.mark.slow] * (one != versions_of(family)[-1]))
        for family in FOLDERS
        for one in versions_of(family)
    ],
)
def test_every_planned_flag_is_known(
    tool_sets: dict[str, Tools], family: str, version: str
) -> None:
    options = json.loads((tool_sets[version].root / "standin" / "options.json").read_text())
    plan = planned(family, version=version)
    for command in plan.engines:
        program = "vision" if command.name == "vision" else "trtllm-build"
        used = {word.removeprefix("--") for word in command.argv if word.startswith("--")}
        assert used <= set(options["programs"][program])
        for name, value in zip(command.argv, command.argv[1:], strict=False):
            declared = options["programs"][program].get(name.removeprefix("--"), {})
            if name.startswith("--") and "choices" in declared:
                assert value in declared["choices"]


@cases(
    "family argv words",
    {
        "family": ("t5", ["--dtype", "float16"], "is not one of this converter"),
        "heads": ("llava", ["--tp_size", "3"], "% tp_size 3 != 0"),
        "layers": ("llava", ["--pp_size", "5"], "% pp_size 5 != 0"),
    },
)
def test_inputs_must_agree(
    tool_sets: dict[str, Tools], tmp_path: Path, family: str, argv: list[str], words: str
) -> None:
    source = write_model(tmp_path / "checkpoint", family)
    where = ["--model_dir", str(source), "--output_dir", str(tmp_path / "out")]
    converter = "examples/models/core/llama/convert_checkpoint.py"
    code, output = run(tool_sets["0.20.0"], "python3", converter, *where, *argv)
    assert code == 1
    assert words in output
