"""The model `preprocessing`: a question and its pictures to token ids and pixel values."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_api.documents.serving_plan import ServingPlan
from mm_runtime.engine.directory import EngineDirectory
from mm_runtime.engine.errors import RequestError
from mm_runtime.engine.media import MediaLimits, image_from_url, images_from_pixels
from mm_runtime.engine.preprocess import ImagePreprocessor
from mm_runtime.engine.prompts import PromptWriter, place_features
from mm_runtime.engine.tensors import Tensors, required, scalar, single, texts
from mm_runtime.engine.tokens import TextCodec
from mm_runtime.engine.words import pack_words

Outputs = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Preprocessor:
    """Everything that preparing a request needs, loaded once."""

    codec: TextCodec
    prompts: PromptWriter
    images: ImagePreprocessor | None
    engine: EngineDirectory
    media: MediaLimits
    max_images: int

    @classmethod
    def load(cls, engine: EngineDirectory, serving: ServingPlan) -> "Preprocessor":
        """Read tokenizer, template and image processor of the engine.

        Raises:
            OSError, ValueError, KeyError: a file is missing or not understood.
        """
        codec = TextCodec(engine.processor)
        gateway = serving.gateway
        limits = (gateway.max_images_per_request, engine.limits.max_images_per_request)
        return cls(
            codec=codec,
            prompts=PromptWriter.from_folder(engine.processor, codec.begin_token),
            images=ImagePreprocessor.from_folder(engine.processor) if engine.vision else None,
            engine=engine,
            media=MediaLimits(gateway.max_image_bytes, gateway.max_image_pixels),
            max_images=min(limits),
        )

    def prepare(self, inputs: Tensors) -> Outputs:
        """Return the outputs of one request; those that nothing asked for are absent.

        Args:
            inputs: `QUERY`, `REQUEST_OUTPUT_LEN` and the optional tensors of the model's config.

        Raises:
            RequestError: what is wrong and what was expected.
        """
        pixels = self._pixel_values(inputs)
        encoded = single(inputs, "IMAGE")
        if pixels is not None and encoded is not None:
            raise RequestError("send pictures as image_input or as raw or encoded images, not both")
        images = sum(len(part) for part in (pixels, encoded) if part is not None)
        if images > self.max_images:
            raise RequestError(f"{images} images, at most {self.max_images} a request are allowed")
        text = next(iter(texts({"QUERY": _batch_of_one(inputs)}, "QUERY")))
        ids = self._token_ids(text, images)
        end_id, pad_id = scalar(inputs, "END_ID"), scalar(inputs, "PAD_ID")
        end_id = self.codec.end_id if end_id is None else end_id
        pad_id = self.codec.pad_id if pad_id is None else pad_id
        outputs: Outputs = {
            "INPUT_ID": np.array([ids], dtype=np.int32),
            "REQUEST_INPUT_LEN": np.array([[len(ids)]], dtype=np.int32),
            # A decoder-only model has no decoder prompt; upstream sends one pad token here too.
            "DECODER_INPUT_ID": np.array([[pad_id]], dtype=np.int32),
            "REQUEST_DECODER_INPUT_LEN": np.array([[1]], dtype=np.int32),
            "REQUEST_OUTPUT_LEN": np.array([[required(inputs, "REQUEST_OUTPUT_LEN")]], np.int32),
            "OUT_END_ID": np.array([[end_id]], dtype=np.int32),
            "OUT_PAD_ID": np.array([[pad_id]], dtype=np.int32),
        }
        if pixels is not None:
            outputs["PIXEL_VALUES"] = pixels[np.newaxis].astype(np.float16)
        self._add_words(inputs, outputs)
        self._add_bias(inputs, outputs)
        extra_id = scalar(inputs, "PROMPT_TABLE_EXTRA_ID")
        if extra_id is not None:
            vocabulary = self.engine.facts.text.vocabulary_size
            marked = [[extra_id if token >= vocabulary else 0 for token in ids]]
            outputs["OUT_PROMPT_TABLE_EXTRA_IDS"] = np.array(marked, dtype=np.uint64)
        return outputs

    def _pixel_values(self, inputs: Tensors) -> NDArray[np.float32] | None:
        """Return float32 [images, 3, S, S] of raw or encoded pictures, None when there are none."""
        if "VIDEO_BYTES" in inputs:
            raise RequestError("video_bytes_input: this model takes pictures, no video")
        pictures = [image_from_url(url, self.media) for url in texts(inputs, "IMAGE_URL") if url]
        if "IMAGE_BYTES" in inputs:
            pictures += images_from_pixels(inputs["IMAGE_BYTES"], self.media)
        if not pictures:
            return None
        if self.images is None:
            raise RequestError("this model takes no pictures")
        return self.images(pictures)

    def _token_ids(self, text: str, images: int) -> list[int]:
        facts = self.engine.facts
        vision = self.engine.vision
        ids = place_features(
            self.codec.encode_prompt(self.prompts.write(text, images)),
            image_token_id=facts.image_token_id if vision else None,
            features_per_image=vision.features_per_image if vision else 0,
            vocabulary_size=facts.text.vocabulary_size,
        )
        limit = self.engine.limits.max_input_len
        if len(ids) > limit:
            raise RequestError(
                f"the prompt has {len(ids)} tokens, image features included; at most {limit} are "
                "allowed (maxInputLen)"
            )
        return ids

    def _add_words(self, inputs: Tensors, outputs: Outputs) -> None:
        for source, target in (
            ("STOP_WORDS_DICT", "STOP_WORDS_IDS"),
            ("BAD_WORDS_DICT", "BAD_WORDS_IDS"),
        ):
            words = [word for word in texts(inputs, source) if word]
            if words:
                packed = pack_words([self.codec.encode_word(word) for word in words])
                outputs[target] = packed[np.newaxis]

    def _add_bias(self, inputs: Tensors, outputs: Outputs) -> None:
        """Spread `EMBEDDING_BIAS_WEIGHTS` over the tokens of `EMBEDDING_BIAS_WORDS`."""
        words = [word for word in texts(inputs, "EMBEDDING_BIAS_WORDS") if word]
        if not words:
            return
        weights = single(inputs, "EMBEDDING_BIAS_WEIGHTS")
        if weights is None or len(weights) != len(words):
            raise RequestError(
                f"embedding_bias_words has {len(words)} words and embedding_bias_weights "
                f"{0 if weights is None else len(weights)} weights; send one for each word"
            )
        bias = np.zeros((1, self.engine.facts.text.vocabulary_size), dtype=np.float32)
        for word, weight in zip(words, weights, strict=True):
            bias[0, self.codec.encode_word(word)] += weight
        outputs["EMBEDDING_BIAS"] = bias


def _batch_of_one(inputs: Tensors) -> NDArray[Any]:
    """Return the query after checking that it is one string."""
    query = single(inputs, "QUERY")
    if query is None or query.size != 1:
        raise RequestError("text_input: expected one string")
    return query
