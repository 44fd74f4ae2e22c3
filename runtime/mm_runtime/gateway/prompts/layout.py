"""How a family lays out prompts and images: the engine's own rules, applied before it is called.

The preprocessing model counts the same way, so what passes here fits there.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mm_edge.errors import InvalidRequestError
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.preprocess.processors.prepared import ImageProcessor, Size
from mm_runtime.serving.prompts.questions import QuestionWriter


@dataclass(frozen=True, slots=True)
class PromptLayout:
    """Tokens of prompts and rows of images of one engine."""

    questions: QuestionWriter
    image_processor: ImageProcessor | None

    @property
    def rows_are_fixed(self) -> bool:
        """Return whether an image's tokens are known before its size is."""
        return self.image_processor is None or self.image_processor.fixed_rows is not None

    def least_rows(self, images: int) -> int:
        """Return the fewest tokens that so many images become; exact where rows are fixed."""
        fixed = 1 if self.image_processor is None else self.image_processor.fixed_rows
        return images * (1 if fixed is None else fixed)

    def rows(self, sizes: Sequence[Size]) -> int:
        """Return the tokens that the images of one request become.

        Raises:
            InvalidRequestError: an image of a shape that the family cannot read.
        """
        if self.image_processor is None or not sizes:
            return 0
        try:
            return sum(self.image_processor.rows_of(sizes))
        except RequestError as error:
            raise InvalidRequestError(f"{error}.", code="invalid_image") from error

    def cross_attention_rows(self, sizes: Sequence[Size]) -> int:
        """Return the features of images that are read beside the prompt."""
        return (
            0 if self.image_processor is None else self.image_processor.cross_attention_rows(sizes)
        )

    def features(self, sizes: Sequence[Size]) -> int:
        """Return the features of the images of one request, in the prompt or beside it."""
        return self.rows(sizes) + self.cross_attention_rows(sizes)

    def video_rows(self, frames: int, size: Size) -> int:
        """Return the tokens that so many frames of one size become.

        Raises:
            InvalidRequestError: frames of a shape that the family cannot read.
        """
        if self.image_processor is None:
            return 0
        try:
            return self.image_processor.video_rows(frames, size)
        except RequestError as error:
            raise InvalidRequestError(f"{error}.", code="invalid_video") from error

    def text_tokens(self, prompt: str, images: int, *, video: bool = False) -> int:
        """Return the tokens of a complete prompt without the features of its images and videos.

        Raises:
            InvalidRequestError: the model's template has lost or doubled an image.
        """
        # One row for each image, taken off again: some placeholders are no token themselves.
        row = 1 if video else min(1, self.least_rows(1))
        try:
            question = self.questions.write(prompt, None, (row,) * images, video=video)
        except RequestError as error:
            raise InvalidRequestError(
                f"`messages` cannot be written as this model's prompt: {error}.", param="messages"
            ) from error
        return len(question.ids) - row * images
