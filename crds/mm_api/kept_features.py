"""PURE: features of images on the GPU beside those in host memory, as they are planned and kept."""

MOST_ON_GPU_BYTES = 64 << 20
"""Features of 28 images of CLIP ViT-L/14-336 for rows of 2,048 values in 16 bits, of 14 for rows of
4,096: the images of running chats. Others are copied from host memory."""


def on_gpu_bytes(feature_cache_bytes: int) -> int:
    """Return how many bytes of the features that a server keeps lie on its GPU, too."""
    return min(feature_cache_bytes, MOST_ON_GPU_BYTES)
