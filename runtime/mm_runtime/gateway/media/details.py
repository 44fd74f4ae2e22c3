"""PURE: how closely a request wants its images seen: the processors that do so, or a refusal."""

from collections.abc import Sequence

from mm_runtime.gateway.errors import InvalidRequestError
from mm_runtime.gateway.media.images import ImageReference
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.preprocess.processors.prepared import ImageProcessor


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
