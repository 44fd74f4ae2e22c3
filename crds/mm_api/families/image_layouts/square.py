"""Each image becomes one square, and as many features as any other."""

from mm_api.families.image_layouts.layout import REFUSED, ImageLayout

SQUARE = ImageLayout(
    "one square each",
    processor="squares",
    encoder="images",
    file_types=(
        "BlipImageProcessor",
        "CLIPImageProcessor",
        "Gemma3ImageProcessor",
        "SiglipImageProcessor",
    ),
    high=REFUSED,
    is_square=True,
    one_side=True,
    fixed_features=True,
)
