"""PURE: a plan -> the ordered steps of its build."""

import hashlib
import json
from dataclasses import dataclass

from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.build_result import BuildReason
from mm_runtime.build.places import Places
from mm_runtime.errors import PermanentError

COMMANDS = "mm_runtime.build.commands"


@dataclass(frozen=True, slots=True)
class Step:
    """One step: a Python module, run in a process of its own.

    Paths are relative to the working directory, which ends with a slash-free name; a step may be
    run again from the start at any time (it overwrites what it left).
    """

    name: str
    module: str
    purpose: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    permanent_reason: BuildReason
    """Reason of the failure when the step says that another try would fail as well."""

    fingerprint: str
    """Digest of all that the outputs depend on: a journal entry with another one is void."""

    def argv(self, python: str, source: str, places: Places) -> tuple[str, ...]:
        """Return the command line that runs this step."""
        where = ("--source", source, "--store", str(places.store))
        return (python, "-m", self.module, *where, "--fingerprint", places.fingerprint)


def steps(plan: BuildPlan) -> tuple[Step, ...]:
    """Return the steps of a plan, in order.

    Raises:
        PermanentError: a backend or vision engine that this version does not build.
    """
    engine = plan.engine
    if engine.backend != "Reference":
        raise PermanentError(
            f"Backend {engine.backend} cannot be built by this version; expected Reference."
        )
    if engine.vision is not None and engine.vision.engine != "ONNXRuntime":
        raise PermanentError(
            f"Vision engine {engine.vision.engine} cannot be built by this version; expected"
            " ONNXRuntime."
        )
    chosen = [
        _step(
            plan,
            "fetch",
            "copy the checkpoint and compare its digest with the plan's",
            inputs=(),
            outputs=("engine/llm", "engine/processor", "pickles", "fetched.json"),
            permanent_reason=BuildReason.SOURCE_NOT_FOUND,
        )
    ]
    if plan.facts.weight_format == "pickle":
        chosen.append(
            _step(
                plan,
                "convert",
                "turn pickled weights into safetensors",
                inputs=("pickles",),
                outputs=("engine/llm",),
            )
        )
    if engine.vision is not None:
        chosen.append(
            _step(
                plan,
                "export-vision",
                "export vision tower and projector to ONNX, keep torch's answers",
                inputs=("engine/llm",),
                outputs=("engine/vision", "reference.npz"),
            )
        )
        chosen.append(
            _step(
                plan,
                "verify-vision",
                "compare the ONNX model with torch on sample pictures",
                inputs=("engine/vision", "reference.npz"),
                outputs=("verification.json",),
                permanent_reason=BuildReason.VERIFICATION_FAILED,
            )
        )
    return tuple(chosen)


def _step(
    plan: BuildPlan,
    name: str,
    purpose: str,
    *,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    permanent_reason: BuildReason = BuildReason.STEP_FAILED,
) -> Step:
    identity = json.dumps([name, plan.fingerprint, plan.engine.builder_version, inputs, outputs])
    return Step(
        name=name,
        module=f"{COMMANDS}.{name.replace('-', '_')}",
        purpose=purpose,
        inputs=inputs,
        outputs=outputs,
        permanent_reason=permanent_reason,
        fingerprint=hashlib.sha256(identity.encode()).hexdigest(),
    )
