"""What a gateway may take of memory: it holds itself to these bounds, the operator adds them up."""

from mm_api.documents.serving_plan import GatewayPlan

DECODERS = 2
"""Processes that decode files of users: about a hundred camera images a second."""

KNOWN_IMAGE_BYTES = 32 << 20
"""Budget of reduced images that are known again: 99 of CLIP's 336 x 336 pixels."""

_PROCESS_BYTES = 512 << 20
"""Memory of the gateway's process: what it takes at rest, and what JSON, templates, tokens and
reduced images of the requests inside take on top."""

_BODY_BYTES = 512 << 20
"""For all bodies and fetched files at one time: about twenty with the largest image."""

TEXT_BODY_BYTES = 1 << 20
"""Room for everything in a body that is not an image."""

_DECODER_BYTES = 128 << 20
"""Memory of a decoder at rest: 46 MB private and 25 MB of libraries, rounded up."""

_PIXEL_BYTES = 20
"""Memory of a decoder for each pixel: the smallest bound of private memory with which 50 million
pixels are decoded is 16.5 bytes a pixel for WebP, 12.5 for a progressive CMYK JPEG, 8.3 for a PNG
with transparency."""

_FILE_COPIES = 4
"""Copies of the encoded file: as text and bytes where it came as a URL, and in the decoder's
reader."""

_LEAST_WORK_BYTES = 512 << 20
"""Work memory of a decoder besides its own: a square of 8,192 x 8,192 pixels, which LLaVA-OneVision
pads a long image to, twice."""


_CHANNELS = 3

IMAGE_COPIES = 1.25
"""Copies of an image: the file, in a buffer that has grown an eighth beyond it."""

_ROUNDED = 1.05
"""Processors round sides up to patches, beyond the limit of pixels."""


def encoding_bytes(plan: GatewayPlan) -> int:
    """Return the memory of images and frames encoded at one time for a server; one always fits."""
    return int(plan.max_image_pixels * _CHANNELS * IMAGE_COPIES * _ROUNDED)


def decoder_bytes(plan: GatewayPlan) -> int:
    """Return the bound of a decoder's private memory; a file that needs more is refused."""
    pixels = max(_LEAST_WORK_BYTES, plan.max_image_pixels * _PIXEL_BYTES)
    return _DECODER_BYTES + pixels + plan.max_image_bytes * _FILE_COPIES


def largest_body_bytes(*, files: int, file_bytes: int) -> int:
    """Return the size of a body that holds the most and largest files as base64."""
    return files * (file_bytes * 4 // 3 + 1024) + TEXT_BODY_BYTES


def body_bytes(plan: GatewayPlan) -> int:
    """Return the memory of all bodies and fetched files at one time; one always fits."""
    # A video or an audio clip is one file.
    files = max(plan.max_images_per_request, 1)
    return max(_BODY_BYTES, largest_body_bytes(files=files, file_bytes=plan.max_image_bytes))


def gateway_bytes(plan: GatewayPlan, *, encodes: bool, features_bytes: int = 0) -> int:
    """Return the memory limit of a gateway's container.

    `encodes`: it sends media on as files, to another server. `features_bytes`: of the folder in
    which it hands features over.
    """
    encoding = encoding_bytes(plan) if encodes else 0
    # Files in shared memory count to the container that writes them; others are on their way.
    encoding += 2 * features_bytes
    decoders = DECODERS * decoder_bytes(plan)
    return _PROCESS_BYTES + KNOWN_IMAGE_BYTES + body_bytes(plan) + encoding + decoders
