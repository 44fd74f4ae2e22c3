"""What tests have to know of a family that takes images, beside its record."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from numpy.typing import NDArray

Prepared: TypeAlias = Mapping[str, NDArray[Any]]
"""Outputs of the model `preprocessing`."""

Inputs: TypeAlias = dict[str, Any]
Size: TypeAlias = tuple[int, int]


def nothing(upstream: Any, ids: list[int], token: int, given: Inputs) -> Inputs:
    del upstream, ids, token, given
    return {}


@dataclass(frozen=True)
class Case:
    """One family in tests. Each stands in the module of the family's name, as `CASE`."""

    write: Callable[[Path], None]
    """Writes a small random checkpoint of the real class with the real layout."""

    prompt: str = ""
    """What a conversation of one question becomes, images at `{images}`, with the begin token where
    the template writes it. Empty: no test queries the family through the gateway."""

    mark: str = ""
    """What stands for an image in it."""

    video_mark: str = ""
    image_processor: str | None = None
    """Class of transformers; None: transformers has none for the family."""

    image_settings: Mapping[str, Any] = field(default_factory=dict)
    """What the checkpoint's processor gives that class beside images."""

    vision_config: str | None = None
    """`module:class` of transformers whose defaults a config.json may leave out; None: not
    compared."""

    text_kind: str = "llama"
    """`text_config.model_type` of a configuration that has nothing else in it."""

    by_conversation: bool = False
    """The image processor takes the images of several conversations."""

    more: Callable[[Any, list[int], int, Inputs], Inputs] = nothing
    """Inputs of `generate` beside the tensors of images, of (`Upstream`, ids, image token, those
    tensors)."""

    video: Callable[[Prepared, list[int]], Inputs] | None = None
    """Inputs of `generate` for a video, of what preprocessing made and the places of its features,
    1 or 0 for each id; None: the family reads no video."""

    packing: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the class's `pack_image_features` beside features, sizes and newline; empty: its
    images are no views."""

    not_compared: Mapping[str, str] = field(default_factory=dict)
    """What transformers cannot be queried -> why."""

    refused_configurations: tuple[tuple[Mapping[str, Any], str], ...] = ()
    """Keys of config.json that make a checkpoint one that is refused, and words of the refusal."""

    refused: tuple[tuple[Size, ...], str] | None = None
    """Images that other families cut or refuse one by one, and words of the refusal."""
