"""The checkpoint's own processor cuts images, in the process of its own class: no encoder."""

from mm_api.families.image_layouts.layout import REFUSED, ImageLayout

OWN = ImageLayout(
    "as the checkpoint's own processor cuts them",
    processor="own",
    encoder=None,
    low=REFUSED,
    high=REFUSED,
    plain=False,
)
