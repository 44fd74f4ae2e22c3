"""A Dockerfile's own steps on a machine that pulls no images and reaches no package index.

    python bench/gpu/dockerfile.py --file runtime/Dockerfile.cuda --pinned /opt/mm/pinned
    python bench/gpu/dockerfile.py --file runtime/Dockerfile.trtllm --uv UV \
        --argument TRITON_IMAGE=twin ENGINE_PYTHON=/usr/local/bin/engine-python --engine TWIN

needs root. Every image that is not one of the file's stages is this machine's system. COPY, ENV,
USER and ENTRYPOINT are done as they are written; RUN is run in a root of overlays, where
`stand_in.py` takes the place of what would fetch: `apt-get` and `pip` only look whether what they
are to install is known, `uv` links this machine's packages into the environment. With --uv, uv is
the real one. A step that fails ends the build.
"""

import argparse
import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gpu_record import ROOT

STAND_IN = Path(__file__).parent / "offline" / "stand_in.py"
STOOD_IN = ("apt-get", "pip", "uv", "engine-python")
RECORD = "stand-ins.json"
"""In a stage's root: what `stand_in.py` did."""

PYTHON = "python3.12"
"""Which the files have; a rehearsal takes another one in its place."""
STEP_SECONDS = 300
VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MOUNT = """\
set -e
mount -t overlay overlay -o "lowerdir=$LOWER,upperdir=$UPPER,workdir=$WORK" "$ROOT"
"""
RUN = """\
mount --rbind /dev "$ROOT/dev"
mount --rbind /proc "$ROOT/proc"
exec chroot --userspec="$OWNER" "$ROOT" /usr/bin/env -i "$@"
"""
COPY = """\
if [ -n "$FROM" ]; then
  mount -t overlay overlay -o "lowerdir=$FROM" "$SOURCE"
fi
case "$TARGET" in */) mkdir -p "$ROOT$TARGET" ;; *) mkdir -p "$(dirname "$ROOT$TARGET")" ;; esac
for one in "$@"; do
  if [ -d "$SOURCE/$one" ]; then
    mkdir -p "$ROOT$TARGET"
    tar -C "$SOURCE/$one" --exclude=__pycache__ -cf - . | tar -C "$ROOT$TARGET" -xf -
  else
    cp -a "$SOURCE/$one" "$ROOT$TARGET"
  fi
done
"""
"""As a builder does, it copies what folders hold; .dockerignore leaves compiled files out."""


@dataclass(frozen=True)
class Stage:
    """What a stage has so far."""

    uppers: tuple[Path, ...] = ()
    """Folders of what its steps wrote, the newest first."""

    arguments: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=lambda: {"PATH": PATH})
    user: str = "0:0"
    entrypoint: tuple[str, ...] = ()

    @property
    def variables(self) -> dict[str, str]:
        """What `$NAME` is in it."""
        return self.arguments | self.environment

    def stood_in(self) -> list[dict[str, Any]]:
        """Return what the stand-ins did in it."""
        files = [one / RECORD for one in reversed(self.uppers)]
        lines = [line for file in files if file.exists() for line in file.read_text().splitlines()]
        return [json.loads(line) for line in lines]


def steps_of(text: str) -> list[tuple[str, str]]:
    """Return the instructions of a Dockerfile and what follows them, comments left out."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    words = (line.strip().partition(" ") for line in joined.splitlines() if line.strip())
    return [(word.upper(), rest.strip()) for word, _, rest in words]


def filled(text: str, variables: Mapping[str, str]) -> str:
    """Return a text with the values of its variables; one that is not known is empty."""
    return VARIABLE.sub(lambda found: variables.get(found[1] or found[2], ""), text)


class Build:
    """The build of one file.

    Args:
        context: folder that COPY takes from.
        scratch: folder on another file system than the machine's root, which overlays it.
        given: build arguments.
        hints: variables that only the stand-ins read.
        python: this machine's interpreter, in place of the file's.
    """

    def __init__(
        self,
        context: Path,
        scratch: Path,
        given: Mapping[str, str],
        hints: Mapping[str, str],
        python: str = PYTHON,
    ) -> None:
        self._context, self._scratch, self._given, self._hints = context, scratch, given, hints
        self.stages: dict[str, Stage] = {}
        self._global: dict[str, str] = {}
        self._number = 0
        self.done: list[dict[str, Any]] = []
        """Each step and its seconds."""

        programs = scratch / "stand-ins" / "usr" / "local" / "bin"
        programs.mkdir(parents=True)
        self._python = python
        text = STAND_IN.read_text(encoding="utf-8").replace(PYTHON, python)
        for name in STOOD_IN:
            (programs / name).write_text(f"#!{sys.executable} -IS\n{text}", encoding="utf-8")
            (programs / name).chmod(0o755)
        # Interpreters of a developer's machine lie in root's home.
        (scratch / "stand-ins" / "root").mkdir(mode=0o755)
        if not Path(f"/usr/bin/{python}").exists():
            link = scratch / "stand-ins" / "usr" / "bin" / python
            link.parent.mkdir()
            link.symlink_to(shutil.which(python) or "/nothing")
        for name in ("root", "source", "work"):
            (scratch / name).mkdir()

    def run(self, text: str) -> Stage:
        """Do all steps; return the last stage.

        Raises:
            RuntimeError: a step failed; holds the end of what it said.
            ValueError: an instruction is not known here.
        """
        stage: Stage | None = None
        name = ""
        for word, rest in steps_of(text.replace(PYTHON, self._python)):
            began = time.monotonic()
            if word == "ARG" and stage is None:
                self._global |= self._argument(rest, self._global)
            elif word == "FROM":
                base, _, name = filled(rest, self._global).partition(" AS ")
                stage = self._derived(self.stages.get(base, Stage()))
                name = name or str(len(self.stages))
            elif stage is not None:
                stage = self._stepped(stage, word, rest)
            self.done.append({"step": f"{word} {rest}", "seconds": _since(began)})
            if stage is not None:
                self.stages[name] = stage
        assert stage is not None, "the file has no FROM"
        return stage

    def _argument(self, rest: str, known: Mapping[str, str]) -> dict[str, str]:
        name, _, default = rest.partition("=")
        return {name: self._given.get(name, self._global.get(name, filled(default, known)))}

    def _derived(self, base: Stage) -> Stage:
        self._number += 1
        upper = self._scratch / f"stage-{self._number}"
        upper.mkdir(mode=0o755)
        return replace(base, uppers=(upper, *base.uppers))

    def _stepped(self, stage: Stage, word: str, rest: str) -> Stage:
        if word == "ARG":
            more = self._argument(rest, stage.variables)
            return replace(stage, arguments=stage.arguments | more)
        if word == "ENV":
            pairs = dict(one.split("=", 1) for one in shlex.split(filled(rest, stage.variables)))
            return replace(stage, environment=stage.environment | pairs)
        if word == "USER":
            user = filled(rest, stage.variables)
            return replace(stage, user="0:0" if user == "root" else user)
        if word == "ENTRYPOINT":
            return replace(stage, entrypoint=tuple(json.loads(rest)))
        if word == "RUN":
            # Layers are of one file; what the stand-ins read is in no image.
            variables = [f"{k}={v}" for k, v in {**stage.variables, **self._hints}.items()]
            self._in_mounts(stage, f"RUN {rest}", RUN, [*variables, "/bin/sh", "-c", rest])
            return stage
        if word == "COPY":
            self._copy(stage, rest)
            return stage
        raise ValueError(f"{word} is not known here")

    def _copy(self, stage: Stage, rest: str) -> None:
        *sources, target = shlex.split(filled(rest, stage.variables))
        of_stage = [one for one in sources if one.startswith("--from=")]
        lower = ""
        if of_stage:
            sources.remove(of_stage[0])
            lower = self._lower(self.stages[of_stage[0].removeprefix("--from=")].uppers)
        more = {
            "FROM": lower,
            "SOURCE": str(self._scratch / "source" if lower else self._context),
            "TARGET": target,
        }
        self._in_mounts(stage, f"COPY {rest}", COPY, sources, more)

    def _lower(self, uppers: Sequence[Path]) -> str:
        return ":".join(map(str, (*uppers, self._scratch / "stand-ins", "/")))

    def _in_mounts(
        self,
        stage: Stage,
        what: str,
        script: str,
        words: Sequence[str],
        more: Mapping[str, str] | None = None,
    ) -> None:
        """Run a script where the stage's root is mounted: mounts end with it."""
        upper, *lower = stage.uppers
        variables = {
            "PATH": PATH,
            "LOWER": self._lower(lower),
            "UPPER": str(upper),
            "WORK": str(self._scratch / "work"),
            "ROOT": str(self._scratch / "root"),
            "OWNER": stage.user,
            **(more or {}),
        }
        command = ["unshare", "--mount", "--propagation", "private", "/bin/sh", "-c"]
        done = subprocess.run(
            [*command, MOUNT + script, "sh", *words],
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=STEP_SECONDS,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{what}: exit code {done.returncode}\n{done.stdout[-3000:]}")


def _since(began: float) -> float:
    return round(time.monotonic() - began, 1)


def built(
    file: Path,
    scratch: Path,
    *,
    given: Mapping[str, str] | None = None,
    hints: Mapping[str, str] | None = None,
    python: str = PYTHON,
) -> tuple[Stage, dict[str, Any]]:
    """Build a file of this repository; return its last stage, and what is to be recorded."""
    build = Build(ROOT, scratch, given or {}, hints or {}, python)
    stage = build.run(file.read_text(encoding="utf-8"))
    slow = {one["step"][:60]: one["seconds"] for one in build.done if one["seconds"] >= 1}
    found = [one for each in build.stages.values() for one in each.stood_in()]
    unique = {json.dumps(one): one for one in found}
    record = {
        "file": str(file.relative_to(ROOT)),
        "steps": len(build.done),
        "seconds": slow,
        "stand_ins": list(unique.values()),
    }
    return stage, record


def hints_of(
    folders: Sequence[Path | None], uv: Path | None, engine: Path | None
) -> dict[str, str]:
    """Return the variables of the stand-ins.

    Args:
        folders: packages of this machine, the first before the others.
        uv: the real one, if it is to install.
        engine: interpreter that `engine-python` is.
    """
    hints = {"MM_PACKAGES": ":".join(str(one) for one in folders if one)}
    return (
        hints | ({"MM_UV": str(uv)} if uv else {}) | ({"MM_ENGINE": str(engine)} if engine else {})
    )


def main() -> None:
    """Build and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", type=Path, required=True)
    parser.add_argument("--packages", type=Path, nargs="*", default=[], help="site-packages")
    parser.add_argument("--argument", nargs="*", default=[], help="NAME=VALUE of the build")
    parser.add_argument("--uv", type=Path, help="the real one")
    parser.add_argument("--engine", type=Path, help="what engine-python is")
    options = parser.parse_args()
    given = dict(one.split("=", 1) for one in options.argument)
    with tempfile.TemporaryDirectory(prefix="dockerfile-", dir="/dev/shm") as scratch:
        stage, record = built(
            options.file.resolve(),
            Path(scratch),
            given=given,
            hints=hints_of([one.resolve() for one in options.packages], options.uv, options.engine),
        )
        print(json.dumps(record, indent=1))
        print(stage.user, *stage.entrypoint, *(f"{k}={v}" for k, v in stage.environment.items()))


if __name__ == "__main__":
    main()
