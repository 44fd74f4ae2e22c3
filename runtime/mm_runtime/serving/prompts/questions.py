"""From a request's text and the rows of its images to token ids, by family."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from mm_api.families.prompt import PromptStyle
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.prompts.starts import decoder_start
from mm_runtime.serving.prompts.styles import style_of
from mm_runtime.serving.prompts.tokens import TextCodec
from mm_runtime.serving.prompts.writers import PromptWriter, place_features


@dataclass(frozen=True)
class Question:
    """Token ids of one request."""

    ids: list[int]
    """The prompt; for an encoder-decoder what the encoder reads."""

    decoder_ids: list[int] | None = None
    """What the decoder reads first; None for a decoder without an encoder."""

    text: str = ""
    """The prompt with its placeholders; empty for an encoder-decoder."""


@dataclass(frozen=True)
class PromptQuestions:
    """Decoders: the chat template around the text, features where the images stand."""

    codec: TextCodec
    prompts: PromptWriter
    style: PromptStyle
    image_token_id: int | None
    vocabulary_size: int

    def write(
        self, text: str, decoder_text: str | None, rows: Sequence[int], *, video: bool
    ) -> Question:
        """Return the ids of a request; one past the vocabulary stands for a row of the table.

        `text`: of the user, or a complete prompt. `decoder_text`: what an encoder-decoder's answer
        starts with. `rows`: that each image becomes; `video`: they are those of a video.

        Raises:
            RequestError: placeholders and images disagree in number.
        """
        del decoder_text  # there is no second prompt
        prompt = self.prompts.write(text, len(rows), video=video)
        if self.style.splits:
            return Question(self._split(prompt, rows))
        if self.style.framed:
            prompt = prompt.replace(self.style.placeholder, self.style.framed)
        token = self._video_token if video else self.image_token_id
        ids = self.codec.encode_prompt(prompt)
        if any(rows):  # cross attention leaves the image's token in its place
            if token is not None and ids.count(token) != len(rows):
                raise RequestError(
                    "the prompt holds tokens that stand for features of images; remove them, each "
                    f"{self.style.placeholder} becomes as many as its image needs"
                )
            ids = place_features(
                ids, feature_id=token, rows=rows, vocabulary_size=self.vocabulary_size
            )
        return Question(ids, text=prompt)

    @property
    def _video_token(self) -> int | None:
        same = self.style.video == self.style.placeholder
        return self.image_token_id if same else self.codec.id_of(self.style.video)

    def _split(self, prompt: str, rows: Sequence[int]) -> list[int]:
        """Return ids with features between the parts of the text, which begins once.

        `prompt`: with a placeholder for each of `rows`.
        """
        parts = prompt.split(self.style.placeholder)
        ids: list[int] = []
        next_row, begun = self.vocabulary_size, False
        for number, part in enumerate(parts):
            if part:
                ids += (self.codec.encode_word if begun else self.codec.encode_prompt)(part)
                begun = True
            if number < len(rows):
                ids += range(next_row, next_row + rows[number])
                next_row += rows[number]
        return ids


@dataclass(frozen=True)
class TextQuestions:
    """Encoder-decoders: the encoder reads the text, the decoder starts as the checkpoint says."""

    codec: TextCodec
    start: tuple[int, ...]
    """Start token, and the token that checkpoints force after it (mBART: the language)."""
    most: int
    """Ids that the decoder's prompt may have."""

    def write(
        self, text: str, decoder_text: str | None, rows: Sequence[int], *, video: bool
    ) -> Question:
        """Return the ids of text and decoder's prompt."""
        del rows, video  # refused before
        decoder = list(self.start)
        if decoder_text:
            decoder += self.codec.encode_word(decoder_text)
        if len(decoder) > self.most:
            raise RequestError(
                f"decoder_text_input: the decoder's prompt has {len(decoder)} ids, at most "
                f"{self.most} are allowed (maxInputLen)"
            )
        return Question(self.codec.encode_prompt(text), decoder)


QuestionWriter: TypeAlias = PromptQuestions | TextQuestions
"""One family's way from text to ids."""


def load_questions(engine: EngineDirectory, codec: TextCodec) -> QuestionWriter:
    """Return the way of an engine's family.

    Raises:
        OSError, ValueError, KeyError: a file is missing or not understood.
    """
    facts = engine.facts
    if facts.encoder is not None:
        return TextQuestions(codec, decoder_start(engine.configs), engine.limits.max_input_len)
    style = style_of(engine, codec)
    return PromptQuestions(
        codec=codec,
        prompts=PromptWriter.from_folder(
            engine.processor, codec.begin_token, style, engine.tokenizer
        ),
        style=style,
        image_token_id=facts.image_token_id if engine.vision else None,
        vocabulary_size=facts.text.vocabulary_size,
    )
