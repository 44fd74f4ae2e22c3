"""The model `preprocessing`: a question and its images to token ids and pixel values."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mm_api.documents.serving_plan import ServingPlan
from mm_api.families import FAMILIES
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.preprocess.image_ids import (
    TEXT,
    Pixels,
    extra_ids,
    image_id,
    salted_id,
    salted_text,
    sized_id,
)
from mm_runtime.serving.preprocess.media import (
    MediaLimits,
    image_from_url,
    images_from_pixels,
)
from mm_runtime.serving.preprocess.processors import load_processor
from mm_runtime.serving.preprocess.processors.prepared import ImageProcessor, Prepared
from mm_runtime.serving.preprocess.processors.squares import PIXEL_VALUES, SquareProcessor
from mm_runtime.serving.preprocess.remote_images import Fetched, is_remote
from mm_runtime.serving.preprocess.video import check_rows, prepare_video
from mm_runtime.serving.prompts.questions import QuestionWriter, load_questions
from mm_runtime.serving.prompts.tokens import TextCodec, surely_exceeds
from mm_runtime.serving.prompts.word_tensors import bias_tensor, end_tensors, word_tensors
from mm_runtime.serving.tensor_names import BYTES_PREPARED
from mm_runtime.serving.tensors import Tensors, all_finite, required, scalar, single, texts

Outputs = dict[str, NDArray[Any]]
EXTRA_IDS = "OUT_PROMPT_TABLE_EXTRA_IDS"
NOTHING: Fetched = MappingProxyType({})


@dataclass(frozen=True)
class Preprocessor:
    """Everything that preparing a request needs, loaded once."""

    codec: TextCodec
    questions: QuestionWriter
    image_processor: ImageProcessor | None
    engine: EngineDirectory
    media: MediaLimits
    max_images: int
    max_frames: int

    @classmethod
    def load(cls, engine: EngineDirectory, serving: ServingPlan) -> "Preprocessor":
        """Read tokenizer, template and image processor of the engine."""
        codec = TextCodec(engine.tokenizer)
        gateway = serving.gateway
        limits = (gateway.max_images_per_request, engine.limits.max_images_per_request)
        return cls(
            codec=codec,
            questions=load_questions(engine, codec),
            image_processor=load_processor(engine),
            engine=engine,
            media=MediaLimits(gateway.max_image_bytes, gateway.max_image_pixels),
            max_images=min(limits),
            # No prompt has room for more: two frames become one token at the very least.
            max_frames=gateway.max_video_frames or 2 * engine.limits.max_input_len,
        )

    def remote_urls(self, inputs: Tensors) -> list[str]:
        """Return the URLs of a request that must be fetched before it is prepared.

        Raises:
            RequestError: the model takes no images, or not so many: nothing is fetched.
        """
        urls = [url for url in texts(inputs, "IMAGE_URL") if url]
        self._check_count(len(urls))
        return [url for url in urls if is_remote(url)]

    def prepare(
        self, inputs: Tensors, fetched: Fetched = NOTHING, requested: Collection[str] = ()
    ) -> Outputs:
        """Return the outputs of one request; those that it does not need are absent.

        Args:
            inputs: `QUERY`, `REQUEST_OUTPUT_LEN` and the optional tensors of the model's config.
            fetched: what `remote_urls` named.
            requested: outputs that the caller reads, as far as others would cost it something:
                pixels as bytes or as values, and ids of images; empty: values, and ids.

        Raises:
            RequestError: what is wrong and what was expected.
        """
        text = next(iter(texts({"QUERY": _batch_of_one(inputs)}, "QUERY")))
        self._check_characters(text)
        if scalar(inputs, "PROMPT_TABLE_EXTRA_ID") == TEXT:
            raise RequestError(f"prompt_table_extra_id: got {TEXT}, the id of text; expected >= 1")
        prepared = self._prepared(inputs, fetched, requested)
        start = next(iter(texts(inputs, "DECODER_QUERY")), None)
        is_video = "VIDEO_BYTES" in inputs
        question = self.questions.write(text, start, prepared.rows, video=is_video)
        ids = question.ids
        self._check_length(ids)
        vocabulary = self.engine.facts.text.vocabulary_size
        ends = end_tensors(inputs, self.codec, vocabulary)
        # A decoder-only model has no decoder prompt; upstream sends one pad token here too.
        decoder_ids = question.decoder_ids or ends["OUT_PAD_ID"][0].tolist()
        outputs: Outputs = {
            "INPUT_ID": np.array([ids], dtype=np.int32),
            "REQUEST_INPUT_LEN": np.array([[len(ids)]], dtype=np.int32),
            "DECODER_INPUT_ID": np.array([decoder_ids], dtype=np.int32),
            "REQUEST_DECODER_INPUT_LEN": np.array([[len(decoder_ids)]], dtype=np.int32),
            "REQUEST_OUTPUT_LEN": np.array([[required(inputs, "REQUEST_OUTPUT_LEN")]], np.int32),
            **ends,
        }
        outputs |= {name: array[np.newaxis] for name, array in prepared.tensors.items()}
        if not FAMILIES[self.engine.facts.family].has_tower:
            outputs["PROMPT_TEXT"] = np.array([[question.text.encode()]], dtype=np.object_)
        self._add_places(ids, outputs)
        outputs |= word_tensors(inputs, self.codec, vocabulary)
        outputs |= bias_tensor(inputs, self.codec, vocabulary)
        if _wants_ids(requested):
            self._add_extra_ids(inputs, ids, prepared, outputs)
        return outputs

    def _check_count(self, count: int) -> None:
        if count and self.image_processor is None:
            raise RequestError("this model takes no images")
        if count > self.max_images:
            raise RequestError(f"{count} images, at most {self.max_images} a request are allowed")

    def _prepared(self, inputs: Tensors, fetched: Fetched, requested: Collection[str]) -> Prepared:
        """Return the request's images for the encoder, and the rows each becomes."""
        encoded = single(inputs, "IMAGE")
        urls = [url for url in texts(inputs, "IMAGE_URL") if url]
        self._check_count(len(urls))
        # An image would give its pixels away as a copy.
        images: list[Image.Image | Pixels] = [
            image_from_url(url, self.media, fetched) for url in urls
        ]
        if "IMAGE_BYTES" in inputs:
            sizes = single(inputs, "PICTURE_SIZES")
            images += images_from_pixels(inputs["IMAGE_BYTES"], self.media, sizes)
        if encoded is not None and not len(encoded):  # the encoder would be given nothing
            raise RequestError("image_input: holds no images; leave it out")
        count = len(images) + (0 if encoded is None else len(encoded))
        if "VIDEO_BYTES" in inputs:
            return self._of_video(inputs, count)
        if count == 0:
            return Prepared({}, ())
        self._check_count(count)
        assert self.image_processor is not None  # noqa: S101 (it has been looked for)
        if images and encoded is not None:
            raise RequestError("send images as image_input, or as pixels or URLs, not both")
        if encoded is not None:
            return self._of_pixel_values(encoded)
        prepared = self._planned(_pixels(self.image_processor, images, requested))
        if not _wants_ids(requested):
            return prepared
        ids = tuple(map(image_id, images))
        if self.image_processor.fixed_rows is None:
            # Beside other images, a family may cut an image into fewer tiles than alone.
            ids = tuple(sized_id(*one) for one in zip(ids, prepared.rows, strict=True))
        return replace(prepared, ids=ids)

    def _of_pixel_values(self, encoded: NDArray[Any]) -> Prepared:
        """Return the rows of images that their client has prepared."""
        if self.engine.vision is None:
            raise RequestError(
                "image_input: this model's own processor prepares images; send "
                "image_bytes_input or image_url_input"
            )
        if not all_finite(encoded):
            raise RequestError("image_input: holds NaN or infinite values, expected pixels")
        rows = (self.engine.vision.features_per_image,) * len(encoded)
        return Prepared({}, rows, tuple(map(image_id, encoded)))

    def _of_video(self, inputs: Tensors, images: int) -> Prepared:
        """Return the request's video, beside which there are no images."""
        if images:
            raise RequestError("a request has either images or one video, not both")
        if self.image_processor is None:
            raise RequestError("video_bytes_input: this model takes no video")
        facts, most = self.engine.facts, self.max_frames
        return self._planned(
            prepare_video(self.image_processor, inputs, self.media, facts, most_frames=most)
        )

    def _planned(self, prepared: Prepared) -> Prepared:
        """Return media whose rows the plan has memory for."""
        limits = self.engine.limits
        if FAMILIES[self.engine.facts.family].layout.counts_rows:
            check_rows(prepared.rows, limits.max_multimodal_len // limits.max_batch_size)
        return prepared

    def _longest(self) -> tuple[int, str]:
        """Return the most tokens of a prompt, and the field that says so."""
        limits = self.engine.limits
        if self.engine.facts.encoder is None:
            return limits.max_input_len, "maxInputLen"
        return limits.max_encoder_input_len or limits.max_input_len, "maxEncoderInputLen"

    def _check_characters(self, text: str) -> None:
        limit, name = self._longest()
        if surely_exceeds(text, limit):
            raise RequestError(
                f"the prompt has {len(text)} characters; at most {limit} tokens are allowed "
                f"({name})"
            )

    def _check_length(self, ids: list[int]) -> None:
        limit, name = self._longest()
        if len(ids) > limit:
            raise RequestError(
                f"the prompt has {len(ids)} tokens, image features included; at most {limit} are "
                f"allowed ({name})"
            )

    def _add_places(self, ids: list[int], outputs: Outputs) -> None:
        """Give the encoder the prompt in which the images stand, where it needs that."""
        if "IMAGE_GRID_THW" in outputs:
            outputs["VISION_INPUT_ID"] = np.array([ids], dtype=np.int32)
        if "ASPECT_RATIO_MASK" in outputs:
            token = self.engine.facts.image_token_id
            seen = seen_tiles(ids, -1 if token is None else token, outputs["ASPECT_RATIO_MASK"][0])
            outputs["CROSS_ATTENTION_MASK"] = seen[np.newaxis]

    def _add_extra_ids(
        self, inputs: Tensors, ids: list[int], prepared: Prepared, outputs: Outputs
    ) -> None:
        """Mark features with the client's id, or else with one of the image's content."""
        total = sum(prepared.rows)
        salt = "".join(texts(inputs, "CACHE_SALT"))
        own = [salted_id(one, salt) for one in prepared.ids]
        requested = scalar(inputs, "PROMPT_TABLE_EXTRA_ID")
        if requested is not None:
            images = [(salted_id(requested, salt), total)]
        elif len(own) == 1:  # one image, or all frames of a video
            images = [(own[0], total)]
        else:
            images = list(zip(own, prepared.rows, strict=True))
        if total:
            vocabulary = self.engine.facts.text.vocabulary_size
            marked = extra_ids(ids, vocabulary, images, salted_text(salt))
            outputs[EXTRA_IDS] = marked


def _wants_ids(requested: Collection[str]) -> bool:
    return not requested or EXTRA_IDS in requested


def _pixels(
    processor: ImageProcessor, images: Sequence[Image.Image | Pixels], requested: Collection[str]
) -> Prepared:
    """Return images as bytes or as values, or as both where the caller reads both."""
    if not isinstance(processor, SquareProcessor) or BYTES_PREPARED not in requested:
        return processor.prepare([*map(_image, images)])
    prepared = processor.prepare_bytes(images)
    if PIXEL_VALUES not in requested:
        return prepared
    values = processor.prepare([*map(_image, images)])
    return replace(prepared, tensors={**prepared.tensors, **values.tensors})


def _image(one: Image.Image | Pixels) -> Image.Image:
    return Image.fromarray(one) if isinstance(one, np.ndarray) else one


def _batch_of_one(inputs: Tensors) -> NDArray[Any]:
    query = single(inputs, "QUERY")
    if query is None or query.size != 1:
        raise RequestError("text_input: expected one string")
    return query


def seen_tiles(ids: Sequence[int], image_token: int, tiles: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return which tokens read which tiles, int64 [tokens, images, tiles].

    A token reads the image before it; images side by side are read together, until the next
    image comes or the prompt ends.

    `tiles`: [images, tiles], 1 for tiles that hold a part of the image.
    """
    places = [at for at, token in enumerate(ids) if token == image_token]
    ends = [*places[1:], len(ids)]
    following = len(ids)
    for at in reversed(range(len(places))):
        if places[at] == ends[at] - 1 and at < len(places) - 1:
            ends[at] = following
        following = ends[at]
    seen = np.zeros((len(ids), *tiles.shape), dtype=np.int64)
    for at, (start, end) in enumerate(zip(places, ends, strict=True)):
        seen[start:end, at] = tiles[at]
    return seen
