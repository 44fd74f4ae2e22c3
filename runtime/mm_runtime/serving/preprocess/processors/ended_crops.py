"""Tiles with a newline behind each: the one image of a request is cut up, several are a tile each.

The steps are those of `generate_content` of NVlabs/VILA (llava_arch.py and mm_utils.py at
33b4f1a5); tests have a port of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image

from mm_api.families import FAMILIES
from mm_runtime.images.processor_config import read_config
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.geometry.anyres import Size
from mm_runtime.serving.preprocess.processors.crops import CropProcessor
from mm_runtime.serving.preprocess.processors.prepared import Colours, Prepared
from mm_runtime.serving.prompts.frames import Frame


@dataclass(frozen=True)
class EndedCropProcessor(CropProcessor):
    """Tiles and colours of one checkpoint, whose runs of features the prompt has apart."""

    feature: str = ""
    """Stands for the features of a tile."""

    line_end: str = ""
    """Text between them."""

    of_several: Image.Resampling = Image.Resampling.BICUBIC
    """How each of several images becomes a tile, as the tower's processor says it. One image is
    resized as Pillow does by default."""

    @classmethod
    def load(cls, engine: EngineDirectory) -> "EndedCropProcessor":
        """Read the checkpoint's configuration."""
        vision, style = engine.facts.vision, FAMILIES[engine.facts.family].prompt
        if vision is None or vision.max_tiles is None or style is None:
            raise ValueError(f"{engine.root}: the facts have no number of tiles")
        colours = Colours.of(read_config(engine.image_processor), Image.Resampling.BICUBIC)
        return cls(
            colours=replace(colours, resample=Image.Resampling.BICUBIC),
            tile=vision.image_size,
            rows=vision.features_per_image,
            least=vision.min_tiles or 1,
            most=max(1, vision.max_tiles - 1),
            feature=style.placeholder,
            line_end=style.alone.removeprefix(style.placeholder),
            of_several=colours.resample,
        )

    def rows_of(self, sizes: Sequence[Size]) -> tuple[int, ...]:
        """Return the features of one image's tiles and view, or of a tile of each."""
        return (self.rows,) * len(sizes) if len(sizes) > 1 else super().rows_of(sizes)

    def frames_of(self, sizes: Sequence[Size]) -> tuple[Frame, ...]:
        """Return the tiles of each image, a line each."""
        counts = [rows // self.rows for rows in self.rows_of(sizes)]
        texts = (self.line_end.join([self.feature] * count) for count in counts)
        return tuple(
            Frame(text, (self.rows,) * count) for text, count in zip(texts, counts, strict=True)
        )

    def reduced(self, image: Image.Image, count: int) -> Image.Image:
        """Return the tile of one of several images, or one image as large as its largest grid."""
        return self._squared(image) if count > 1 else super().reduced(image, count)

    def prepare(self, images: list[Image.Image]) -> Prepared:
        """Return `PIXEL_VALUES` [tiles, 3, side, side] of all images."""
        sizes = [(image.height, image.width) for image in images]
        frames = self.frames_of(sizes)
        if len(images) == 1:
            return replace(super().prepare(images), frames=frames)
        pixels = np.stack([self.colours.normalised(self._squared(image)) for image in images])
        return Prepared({"PIXEL_VALUES": pixels}, self.rows_of(sizes), frames=frames)

    def _squared(self, image: Image.Image) -> Image.Image:
        return image.resize((self.tile, self.tile), resample=self.of_several)
