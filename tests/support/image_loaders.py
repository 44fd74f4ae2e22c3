from mm_edge.body_budget import BodyBudget
from mm_runtime.gateway.media.decoding.pool import Decoders
from mm_runtime.gateway.media.image_cache import DecodedImageCache
from mm_runtime.gateway.media.images import ImageLoader
from mm_runtime.images.fetch import FetchPolicy, ImageFetcher
from mm_runtime.serving.preprocess.media import MediaLimits

_POLICY = FetchPolicy(
    allowed_hosts=(), allow_private_networks=True, timeout_seconds=60, max_bytes=1_000_000
)


def image_loader(
    decoders: Decoders,
    *,
    known_bytes: int = 2_000_000,
    bodies: BodyBudget | None = None,
    reads_times: bool = False,
    keeps_files: bool = False,
) -> ImageLoader:
    """Return a loader of images of two megabytes and a million pixels; it fetches from anywhere."""
    return ImageLoader(
        fetcher=ImageFetcher(_POLICY),
        limits=MediaLimits(max_bytes=2_000_000, max_pixels=1_000_000),
        decoders=decoders,
        known=DecodedImageCache(known_bytes),
        bodies=bodies or BodyBudget(1_000_000),
        reads_times=reads_times,
        keeps_files=keeps_files,
    )
