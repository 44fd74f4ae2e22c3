"""A builder that dies between the last step and the finished engine loses neither."""

import json
from pathlib import Path

import pytest

from mm_api.contract import ExitCode
from mm_runtime.backends import steps
from mm_runtime.base import manifest as manifests
from mm_runtime.base.stop_signal import StopSignal
from mm_runtime.engine_build.run import BuildOptions, build
from support.build_sites import Site
from support.families.images import write
from support.patched_builders import run
from support.staging_sites import StagingSite, staging_site

pytestmark = pytest.mark.usefixtures("quick_builds")

KILLED = -9

DIE = "import os, signal\ndie = lambda: os.kill(os.getpid(), signal.SIGKILL)\n"

MOMENTS = {
    "before-manifest": (
        "import mm_runtime.engine_build.seal as m\nm.write_durably = lambda path, text: die()\n"
    ),
    "half-manifest": (
        "import mm_runtime.engine_build.seal as m\n"
        "m.write_durably = lambda path, text: (path.with_name('.manifest.json.new')"
        ".write_text(text[:40]), die())\n"
    ),
    "before-rename": (
        "from pathlib import Path\nrename = Path.rename\n"
        "Path.rename = lambda self, to: die() if self.name == 'engine' else rename(self, to)\n"
    ),
}
AFTER = "import mm_runtime.engine_build.seal as m\nm.sync_directory = lambda path: die()\n"


@pytest.fixture(params=["reference", pytest.param("staged", marks=pytest.mark.slow)])
def either(request: pytest.FixtureRequest, site: Site, tmp_path: Path) -> Site | StagingSite:
    if request.param == "reference":
        return site
    return staging_site(tmp_path / "staged", source=write("qwen2-vl", tmp_path / "source"))


@pytest.mark.parametrize("moment", MOMENTS)
def test_nothing_is_seen_before_the_end(either: Site | StagingSite, moment: str) -> None:
    assert run(DIE + MOMENTS[moment], either.arguments) == KILLED
    assert not either.paths.engine.exists()
    journal = json.loads(either.paths.journal.read_text())["entries"]
    assert run("", either.arguments) == 0
    manifest = manifests.read(either.paths.manifest)
    manifests.verify(either.paths.engine, manifest)
    assert [entry["record"]["seconds"] for entry in journal] == [
        step.seconds for step in manifest.steps
    ]
    assert "manifest.json" not in [file.path for file in manifest.files]
    assert not [file.path for file in manifest.files if file.path.endswith(".new")]


def test_a_death_after_the_rename_costs_nothing(either: Site | StagingSite) -> None:
    """The engine is complete although its builder died: the next one only finds it."""
    assert run(DIE + AFTER, either.arguments) == KILLED
    result, code = _built(either)
    assert (code, result) == (ExitCode.OK, True)


def _built(site: Site | StagingSite) -> tuple[bool, ExitCode]:
    options = BuildOptions(site.plan, str(site.source), site.store, steps=steps)
    result, code = build(options, StopSignal())
    return result.reused, code
