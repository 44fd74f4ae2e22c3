"""A LLaVA checkpoint with random weights: right in every file, and made in half a second.

What inspect, build and serving do does not depend on what a model has learnt. The trained model of
examples/ is for claims about answers.
"""

from pathlib import Path
from typing import Any

IMAGE_SIZE = 28
PATCH_SIZE = 14
FEATURES = (IMAGE_SIZE // PATCH_SIZE) ** 2
HIDDEN = 32
WORDS = ("<unk>", "<s>", "</s>", "<pad>", "<image>", "user", "assistant", ":", "a", "red", "square")


def write_random_llava(directory: Path) -> Path:
    from tokenizers import Tokenizer, models, pre_tokenizers  # noqa: PLC0415

    words = Tokenizer(models.WordLevel({word: at for at, word in enumerate(WORDS)}, "<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    template = "{% for m in messages %}{{ m.role }} : {{ m.content }} {% endfor %}"
    named = {"unk_token": "<unk>", "additional_special_tokens": ["<image>"]}
    return save_llava(directory, words, named, template, max_position_embeddings=128)


def save_llava(
    directory: Path, words: Any, named: dict[str, Any], template: str, **text: Any
) -> Path:
    import torch  # noqa: PLC0415 (seconds; only tests that need a checkpoint pay them)
    from transformers import (  # noqa: PLC0415
        CLIPImageProcessor,
        CLIPVisionConfig,
        LlamaConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
        PreTrainedTokenizerFast,
    )

    torch.manual_seed(7)
    sizes: dict[str, Any] = {"hidden_size": HIDDEN, "intermediate_size": 64}
    sizes |= {"num_hidden_layers": 2, "num_attention_heads": 2}
    config = LlavaConfig(
        vision_config=CLIPVisionConfig(**sizes, image_size=IMAGE_SIZE, patch_size=PATCH_SIZE),
        text_config=LlamaConfig(
            **sizes, num_key_value_heads=2, vocab_size=words.get_vocab_size(), **text
        ),
        image_token_index=words.token_to_id("<image>"),
        vision_feature_layer=-1,
    )
    model = LlavaForConditionalGeneration(config)
    model.generation_config.eos_token_id = words.token_to_id("</s>")
    model.generation_config.pad_token_id = words.token_to_id("<pad>")
    model.save_pretrained(directory)
    tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=words, bos_token="<s>", eos_token="</s>", pad_token="<pad>", **named
    )
    image = CLIPImageProcessor(
        size={"shortest_edge": IMAGE_SIZE}, crop_size={"height": IMAGE_SIZE, "width": IMAGE_SIZE}
    )
    LlavaProcessor(  # type: ignore[no-untyped-call]
        image_processor=image,
        tokenizer=tokenizer,
        patch_size=PATCH_SIZE,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=template,
    ).save_pretrained(directory)
    return directory
