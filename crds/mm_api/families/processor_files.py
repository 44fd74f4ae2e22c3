"""PURE: whether the file of an image processor is that of the tower beside it.

Preprocessing follows the file and the plan follows the tower: where they contradict each other,
images would be cut otherwise than transformers cuts them, or fail with the first request.
"""

from typing import Any

from mm_api.checkpoint.values import CheckpointError, JsonObject, invalid, section
from mm_api.documents.model_facts import EncoderFacts, VisionFacts
from mm_api.families.family import Family
from mm_api.families.image_layouts import LAYOUTS

_JUDGED = {kind for layout in LAYOUTS for kind in layout.file_types or ()}
"""Types that are not here are not judged."""

_PATCHES = {"patch_size": "patch_size", "merge_size": "merge_size"}
"""Key of a processor of patches -> field of the tower's facts."""


def check_processor(family: Family, vision: VisionFacts | None, processor: JsonObject) -> None:
    """Refuse (CheckpointError) the file of another checkpoint's processor of images.

    `family`: in the layout of the checkpoint's class. `processor`: empty: there is no file.
    """
    if vision is None or not processor or not family.has_tower:
        return
    layout = family.layout
    stated = processor.get("image_processor_type")
    kind = str(stated).removesuffix("Fast").removesuffix("Pil")
    types = layout.file_types
    if types is not None and kind in _JUDGED.difference(types):
        raise invalid(
            f"preprocessor_config.json image_processor_type is {stated!r}, and images of family"
            f" {family.name} are cut by {' or '.join(types) or 'another one'}: the files are of two"
            " checkpoints. Copy the file that lies beside the weights where they were published"
        )
    if layout.one_side:
        _check_side(processor, vision.image_size)
    if layout.rotated:
        for key, field in _PATCHES.items():
            expected = getattr(vision, field)
            if processor.get(key, expected) != expected:
                raise invalid(
                    f"preprocessor_config.json {key} is {processor[key]!r}, and the tower of"
                    f" config.json has {expected}: the files are of two checkpoints"
                )


_OF_BOTH = {"temporal_patch_size": "temporal_patch_size", "max_image_tiles": "max_num_tiles"}
"""Key of a processor -> key of vision_config: frames of a patch, and tiles that have an id each."""


def check_tower(
    family: Family, vision: VisionFacts | None, config: JsonObject, processor: JsonObject
) -> None:
    """Refuse (CheckpointError) a tower whose numbers contradict each other, or its processor's.

    Heads that do not share its width show their number in no shape.
    """
    if vision is None or not family.architectures:
        return
    tower = section(config, "vision_config") or {}
    stated, each = tower.get("num_attention_heads"), tower.get("head_dim")
    width = vision.hidden_size
    heads = vision.attention_heads or (stated if type(stated) is int and stated > 0 else None)
    if heads and (width % heads or (type(each) is int and each * heads != width)):
        has = f" of head_dim {each}" if type(each) is int else ""
        raise invalid(
            f"config.json gives the vision tower {heads} attention heads{has}, which do not share"
            f" its width {width}. Use the config.json that was published with the weights"
        )
    for key, there in _OF_BOTH.items():
        found, expected = processor.get(key), tower.get(there)
        if type(found) is type(expected) is int and found != expected:
            raise invalid(
                f"preprocessor_config.json {key} is {found}, and vision_config.{there} of"
                f" config.json is {expected}: the files are of two checkpoints"
            )


_SAMPLES = 16_000
"""A second, of every family that reads audio."""


def check_extractor(encoder: EncoderFacts | None, extractor: JsonObject) -> None:
    """Refuse (CheckpointError) the file of features of another encoder's recordings."""
    if encoder is None or encoder.mel_bins is None:
        return
    expected = {"feature_size": encoder.mel_bins, "sampling_rate": _SAMPLES}
    if encoder.max_positions:  # two frames become a position
        expected["nb_max_frames"] = 2 * encoder.max_positions
    for key, value in expected.items():
        if extractor.get(key, value) != value:
            raise invalid(
                f"preprocessor_config.json {key} is {extractor[key]!r}, and the encoder of"
                f" config.json takes {value}: the files are of two checkpoints"
            )


_JOINED = {
    "patch_size": "patch_size",
    "spatial_merge_size": "merge_size",
    "vision_feature_select_strategy": "feature_select",
}
"""Key of a processor of text and images -> field of the tower's facts."""


def check_joined(family: Family, vision: VisionFacts | None, processor: JsonObject) -> None:
    """Refuse (CheckpointError) a processor that gives images other tokens, or another number."""
    if vision is None or family.prompt is None or not family.has_tower:
        return
    written = family.prompt.framed or family.prompt.placeholder
    stated = processor.get("image_token")
    token = stated.get("content") if isinstance(stated, dict) else stated
    if isinstance(token, str) and token not in written:
        raise _unlike("image_token", token, written)
    for key, field in _JOINED.items():
        expected, found = getattr(vision, field), processor.get(key)
        if type(found) is type(expected) and found != expected:
            raise _unlike(key, found, expected)


def _unlike(key: str, found: Any, expected: Any) -> CheckpointError:
    return invalid(
        f"processor_config.json {key} is {found!r}, and the model of config.json has {expected!r}:"
        " the files are of two checkpoints. Copy the file that was published with the weights"
    )


def _check_side(processor: JsonObject, side: int) -> None:
    if processor.get("do_pad") and str(processor.get("image_processor_type")).startswith("LlavaIm"):
        raise invalid(
            "preprocessor_config.json do_pad is true: LlavaImageProcessor would fill images up to"
            " a square, which is not done here. Set it to false, or use a checkpoint whose images"
            " are cut, as llava-1.5's"
        )
    cropped = processor.get("crop_size") and processor.get("do_center_crop") is not False
    key = "crop_size" if cropped else "size"
    found, scaled = processor.get(key), processor.get("size")
    if cropped and processor.get("do_resize") is not False and isinstance(scaled, dict):
        shortest = scaled.get("shortest_edge")
        if type(shortest) is int and shortest < side:
            raise invalid(
                f"preprocessor_config.json size.shortest_edge is {shortest}, below crop_size"
                f" {side}: images would be filled up with black. Set it to {side}"
            )
    if found is not None and _sides(found) not in (set(), {side}):
        raise invalid(
            f"preprocessor_config.json {key} is {found!r}, and vision_config.image_size is {side},"
            f" the only size that the tower has positions for: set it to {side}, or use the file"
            " that was published with the weights"
        )


def _sides(found: Any) -> set[Any]:
    if not isinstance(found, dict):
        return {found}
    return {found[key] for key in ("height", "width", "shortest_edge") if found.get(key)}
