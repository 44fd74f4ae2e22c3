"""What TensorRT measured while it built, kept in the store: the next build of its kind is faster.

The plan's commands read and write one file of the tree; it is lent from the store before the first
of them and taken back after each. Never part of an engine, and never a reason for a build to fail:
it is dropped when a step failed that had it, because TensorRT does not forgive a damaged one.
"""

import logging
import shutil
from pathlib import Path

from mm_api.documents.build_plan import BuildPlan
from mm_runtime.base.durable import unfinished, write_durably
from mm_runtime.engine_build.build_paths import BuildPaths
from mm_runtime.engine_build.step import Step

log = logging.getLogger(__name__)

CACHES = "timing-caches"
"""Folder of the store."""

FILE = "build/timing.cache"
"""In the tree, as the plan's commands name it."""


class TimingCache:
    """The cache of one build; without commands of TensorRT-LLM nothing happens."""

    def __init__(self, paths: BuildPaths, plan: BuildPlan) -> None:
        self._in_tree = paths.tree / FILE
        self._kept = _kept(paths.store / CACHES, plan)

    def copy_in(self) -> None:
        """Put the store's cache where commands read it, unless an earlier attempt has left one."""
        if self._kept and self._kept.is_file() and not self._in_tree.exists():
            shutil.copyfile(self._kept, self._in_tree)

    def keep(self, step: Step) -> None:
        if not (self._kept and step.command and self._in_tree.is_file()):
            return
        try:
            self._kept.parent.mkdir(exist_ok=True)
            write_durably(self._kept, self._in_tree.read_bytes())
        except OSError as error:
            unfinished(self._kept).unlink(missing_ok=True)
            log.warning("the timing cache is not kept: %s: %s", self._kept, error.strerror)

    def discard(self, step: Step) -> None:
        """Drop the cache after a step that failed with it: at worst it is measured again."""
        if self._kept and step.name.startswith("build-"):
            self._in_tree.unlink(missing_ok=True)
            self._kept.unlink(missing_ok=True)


def _kept(folder: Path, plan: BuildPlan) -> Path | None:
    """Return the store's file; TensorRT refuses measurements of another version or kind of GPU."""
    if plan.trtllm is None:
        return None
    gpu = plan.trtllm.gpu
    return folder / f"trtllm-{plan.trtllm.version}-{gpu.product}-{gpu.compute_capability}"
