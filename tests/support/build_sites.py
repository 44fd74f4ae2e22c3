"""A checkpoint, a plan and a store: what a build needs."""

from dataclasses import dataclass
from pathlib import Path

from mm_api.documents.build_plan import BuildPlan
from mm_runtime.engine_build.build_paths import BuildPaths


@dataclass(frozen=True)
class Site:
    """A checkpoint, a plan for it and a store."""

    source: Path
    plan: BuildPlan
    store: Path

    @property
    def paths(self) -> BuildPaths:
        return BuildPaths(self.store, self.plan.fingerprint)

    @property
    def plan_file(self) -> Path:
        path = self.store.parent / "plan.json"
        path.write_text(self.plan.to_json())
        return path

    @property
    def arguments(self) -> list[str]:
        where = ["--plan", str(self.plan_file), "--source", str(self.source)]
        return ["build", *where, "--store", str(self.store)]


def text_only(plan: BuildPlan) -> BuildPlan:
    """Return a plan without a vision part: one step, fetch, which needs no torch."""
    engine = plan.engine.model_copy(update={"vision": None, "evaluation": "Off"})
    facts = plan.facts.model_copy(update={"vision": None})
    return plan.model_copy(update={"engine": engine, "facts": facts})
