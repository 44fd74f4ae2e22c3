"""PURE: how closely a request wants its images seen: the processors that do so, or a refusal."""

from collections.abc import Mapping, Sequence

from mm_runtime.gateway.errors import InvalidRequestError
from mm_runtime.gateway.media.images import ImageReference
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.preprocess.processors.prepared import ImageProcessor


def with_options(
    processor: ImageProcessor | None,
    family: str,
    options: Mapping[str, object],
    param: str,
    *,
    video: bool,
) -> ImageProcessor | None:
    """Return the processor of a request that sets options, by their names in the checkpoint's own.

    Raises:
        InvalidRequestError: an option that does not act, or a value that is not allowed.
    """
    known, kind = frozenset[str](), "videos" if video else "images"
    if processor is not None:
        known = processor.video_options if video else processor.options
    for name, value in sorted(options.items()):
        if processor is None or name not in known:
            acting = " and ".join(f"`{one}`" for one in sorted(known))
            raise InvalidRequestError(
                f"`{param}.{name}` does not act on {kind} of {family}: "
                f"{f'only {acting} do' if acting else 'no option does'}. Leave it out.",
                param=f"{param}.{name}",
                code="unsupported_parameter",
            )
        try:
            processor = processor.with_option(name, value)
        except RequestError as error:
            raise InvalidRequestError(
                f"`{param}.{name}`: {error}.", param=f"{param}.{name}"
            ) from error
    return processor


def detailed(
    processor: ImageProcessor | None, references: Sequence[ImageReference]
) -> list[ImageProcessor]:
    """Return the processor of each image of a request; a model without one is given none.

    Raises:
        InvalidRequestError: a detail that does not act; `param` names the first such part.
    """
    if processor is None:
        return []
    found = []
    for reference in references:
        try:
            found.append(processor.with_detail(reference.detail, len(references)))
        except RequestError as error:
            param = f"{reference.param}.image_url.detail"
            raise InvalidRequestError(
                f"`{param}`: {error}.", param=param, code="unsupported_parameter"
            ) from error
    return found
