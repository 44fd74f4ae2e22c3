"""What TensorRT-LLM's own backend needs of an encoder beside what the Reference engine needs.

Its engines have inputs for cross attention and for rotated positions whether or not a request has
images: a request without them fails the step, with every other request in it.
"""

import json
from dataclasses import dataclass

import numpy as np

from mm_api.families import FAMILIES
from mm_api.families.family import Kind
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.encode.encoding import Outputs
from mm_runtime.serving.geometry.rotation import Rotation

ROTATIONS, DELTAS = "MROPE_ROTARY_COS_SIN", "MROPE_POSITION_DELTAS"
SKIPPED_POSITIONS = 4
"""One for each tile, as upstream's model `multimodal_encoders` makes them."""


class Completion:
    """How the outputs of one family become those that its backend takes.

    Here nothing is added: the Reference engine, and families with a prompt table alone.
    """

    def without(self, answer: int) -> Outputs:
        """Return the outputs of a request without images whose answer has so many tokens."""
        del answer
        return {}

    def complete(self, outputs: Outputs) -> Outputs:
        return outputs


@dataclass(frozen=True)
class Crossing(Completion):
    """Cross attention is skipped for a request without images, and has features all the same."""

    hidden_size: int

    def without(self, answer: int) -> Outputs:
        """Return features of zeros that no layer reads, and a mask with a row for each token."""
        return {
            "ENCODER_INPUT_FEATURES": np.zeros(
                (1, SKIPPED_POSITIONS, self.hidden_size), dtype=np.float32
            ),
            "ENCODER_OUTPUT_LENGTHS": np.array([[SKIPPED_POSITIONS]], dtype=np.int32),
            "CROSS_ATTENTION_MASK": np.zeros((1, max(1, answer), SKIPPED_POSITIONS), np.bool_),
            "SKIP_CROSS_ATTN_BLOCKS": np.array([[True]]),
        }


@dataclass(frozen=True)
class Rotated(Completion):
    """Rotations cover all positions that the checkpoint has: the engine takes no other length."""

    rotation: Rotation
    positions: int

    def without(self, answer: int) -> Outputs:
        """Return the rotations of text: all three coordinates count on."""
        del answer
        counted = np.broadcast_to(np.arange(self.positions), (3, self.positions))
        values = self.rotation.values(counted).reshape(1, -1)
        return {ROTATIONS: values, DELTAS: np.array([[0]], dtype=np.int64)}

    def complete(self, outputs: Outputs) -> Outputs:
        given = outputs[ROTATIONS]
        padded = np.zeros((1, self.positions, self.rotation.head_size // 2, 2), dtype=np.float32)
        padded[..., 0] = 1.0  # the cosine of 0
        values = padded.reshape(1, -1)
        values[:, : given.shape[1]] = given
        return {**outputs, ROTATIONS: values}


def completion_of(engine: EngineDirectory) -> Completion:
    """Return what an engine's backend needs.

    Raises:
        OSError, ValueError: the checkpoint's configuration is missing or not understood.
    """
    family, text = FAMILIES[engine.facts.family], engine.facts.text
    if not engine.manifest.plan.engine.traits.builds_engines:
        return Completion()
    if family.kind is Kind.CROSS_ATTENTION:
        return Crossing(text.hidden_size)
    if family.layout.rotated:
        config = json.loads((engine.configs / "config.json").read_text(encoding="utf-8"))
        rotation = Rotation.of(config, text.head_size)
        return Rotated(rotation, text.max_position_embeddings)
    return Completion()
