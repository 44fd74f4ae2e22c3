"""One small vocabulary for all families, as a fast tokenizer of words."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
WORDS = (
    *("user", "assistant", "question", "answer", ":", "?", ".", "what", "is", "in", "the", "image"),
    *("a", "red", "green", "blue", "square", "circle", "one", "two", "three", "left", "right"),
    *("translate", "to", "german", "i", "see", "video", "and", "of", "it", "color", "shape"),
)
SIZE = 64
"""Ids of the vocabulary; those that no word has are `<extra_n>`."""

PAD, UNKNOWN, BEGIN, END = range(4)


def vocabulary(tokens: Sequence[str] = (), last: Sequence[str] = ()) -> list[str]:
    words = [*SPECIAL, *tokens, *WORDS]
    return [*words, *(f"<extra_{at}>" for at in range(SIZE - len(words))), *last]


def id_of(word: str, tokens: Sequence[str] = ()) -> int:
    return vocabulary(tokens).index(word)


def tokenizer(
    tokens: Sequence[str] = (),
    last: Sequence[str] = (),
    *,
    ends: bool = False,
    named: Mapping[str, str] | None = None,
) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors  # noqa: PLC0415
    from transformers import PreTrainedTokenizerFast  # noqa: PLC0415 (seconds)

    found = {word: at for at, word in enumerate(vocabulary(tokens, last))}
    words = Tokenizer(models.WordLevel(found, "<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    if ends:
        words.post_processor = processors.TemplateProcessing(
            single="$A </s>", special_tokens=[("</s>", END)]
        )
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=words,
        pad_token="<pad>",
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        additional_special_tokens=[*tokens, *last],
        model_specific_special_tokens=dict(named or {}),
    )


def name_extras(folder: Path, names: Sequence[str]) -> None:
    """Give ids that no word has to names, which would all be the unknown word."""
    file = folder / "tokenizer.json"
    text = file.read_text()
    for at, name in enumerate(names):
        text = text.replace(f'"<extra_{at}>"', f'"{name}"')
    file.write_text(text)


def write_tokenizer(
    folder: Path, tokens: Sequence[str] = (), last: Sequence[str] = (), *, ends: bool = False
) -> None:
    tokenizer(tokens, last, ends=ends).save_pretrained(folder)


def begin_texts(file: Path) -> None:
    """Have the begin token before each text, as Llama's tokenizers have it."""
    from tokenizers import Tokenizer, processors  # noqa: PLC0415

    words = Tokenizer.from_file(str(file))
    words.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", BEGIN)])
    words.save(str(file))
