"""Room for LoRA adapters that come and go in running pods: its size, its bytes, who has none."""

from collections.abc import Iterator

from mm_api.conditions import Reason as ConditionReason
from mm_api.documents.adapter_room import LoraRoom
from mm_api.documents.model_facts import EncoderFacts, ModelFacts, TextFacts
from mm_api.documents.model_plan import Reason
from mm_api.families.family import ImageLayout
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator.errors import SpecError
from mm_operator.plan.engine.target import Target

PATH = "spec.engine.loraRoom"


def planned_room(spec: MultimodalModelSpec, facts: ModelFacts, key: str) -> LoraRoom | None:
    """Return the room of a model's pods: as declared, or larger where its adapters need that.

    Args:
        spec: of the model.
        facts: of its checkpoint and adapters.
        key: of the model's folder in the store.
    """
    declared = spec.engine.lora_room
    if declared is None:
        return None
    return LoraRoom(
        key=key,
        max_adapters=max(declared.max_adapters, len(facts.lora.adapters) if facts.lora else 0),
        max_rank=max(declared.max_rank, facts.lora.rank if facts.lora else 0),
    )


def room_bytes(room: LoraRoom, facts: ModelFacts, size: int) -> int:
    """Return what a full room takes, in elements of `size`: every module, at the highest rank."""
    rows = _rows(facts.text, facts)
    if facts.encoder is not None:
        rows += _rows(facts.encoder, None)
    return room.max_adapters * room.max_rank * rows * size


def room_reasons(target: Target, size: int) -> Iterator[Reason]:
    """Yield how large the room is, in elements of `size`, and why; nothing where there is none."""
    declared = target.spec.engine.lora_room
    room = planned_room(target.spec, target.facts, target.model)
    if declared is None or room is None:
        return
    yield Reason(
        field="loraRoom",
        value=f"{room.max_adapters} adapters of rank {room.max_rank}: "
        f"{room_bytes(room, target.facts, size)} bytes",
        reason="as written in spec.engine.loraRoom"
        if (room.max_adapters, room.max_rank) == (declared.max_adapters, declared.max_rank)
        else "spec.engine.lora needs more than spec.engine.loraRoom declares",
    )


def check_room(target: Target, *, on_gpu: bool) -> Iterator[SpecError]:
    """Yield an error for each thing with which adapters cannot come and go."""
    spec = target.spec
    if spec.engine.lora_room is None:
        return
    if on_gpu:
        yield _refused(
            "on a GPU passes are recorded with the adapters that they have: remove the field, or "
            "set runtime.gpu.count to 0"
        )
    if target.family.image_layout is ImageLayout.OWN:
        yield _refused(
            f"models of family {target.family.name} run in their own class, which takes no "
            "adapters: remove the field"
        )
    elif target.family.joined_matrices:
        yield _refused(
            f"adapters of family {target.family.name} name matrices that are joined there, and are "
            "not read: remove the field"
        )
    if spec.build.store.s3 is not None:
        yield _refused(
            "pods pull engines from a bucket once, and adapters would not follow: remove the "
            "field, or keep engines in a claim"
        )
    if spec.rollout.require_evaluation:
        yield _refused(
            "an adapter that comes later was compared with nothing, and "
            "rollout.requireEvaluation is set: remove one of the two"
        )


def _refused(message: str) -> SpecError:
    return SpecError(ConditionReason.NOT_SUPPORTED, message, PATH)


def _rows(stack: TextFacts | EncoderFacts, decoder: ModelFacts | None) -> int:
    """Return input and output lengths of all modules of a stack, added up.

    Two matrices a module: from its input down to the rank, from there up to its output.
    """
    hidden, wide = stack.hidden_size, stack.intermediate_size
    heads = stack.attention_heads * stack.head_size
    pairs = stack.key_value_heads * stack.head_size if isinstance(stack, TextFacts) else heads
    each = 2 * (hidden + heads) + 2 * (hidden + pairs) + 3 * (hidden + wide)
    if decoder is not None and decoder.encoder is not None:
        each += 2 * (hidden + heads) + 2 * (decoder.encoder.hidden_size + pairs)
    return stack.layers * each
