"""What encoders refuse whose tiles follow from an image's shape."""

from typing import Any

from numpy.typing import NDArray

from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.tensors import Tensors


def refuse_cut_images(inputs: Tensors) -> None:
    """Refuse images that the client cut itself: their shapes are not known.

    Raises:
        RequestError: the request has such.
    """
    if "IMAGE" in inputs:
        raise RequestError(
            "image_input: this model's images are cut by their shape, which a preprocessed "
            "tensor does not show; send image_bytes_input or image_url_input"
        )


def unlike_sizes(pixels: NDArray[Any], tile: int) -> RequestError:
    return RequestError(
        f"pixel_values: got shape {list(pixels.shape)}, expected [tiles, 3, {tile}, "
        f"{tile}] with the height and width of each image in image_sizes"
    )
