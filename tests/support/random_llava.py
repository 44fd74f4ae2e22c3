"""A LLaVA checkpoint with random weights: right in every file, and made in half a second.

What inspect, build and serving do does not depend on what a model has learnt. The trained model of
examples/ is for claims about answers.
"""

from pathlib import Path

IMAGE_SIZE = 28
PATCH_SIZE = 14
FEATURES = (IMAGE_SIZE // PATCH_SIZE) ** 2
HIDDEN = 32
WORDS = ("<unk>", "<s>", "</s>", "<pad>", "<image>", "user", "assistant", ":", "a", "red", "square")
IMAGE_TOKEN = WORDS.index("<image>")


def write_random_llava(directory: Path, *, shard_bytes: int | None = None) -> Path:
    import torch  # noqa: PLC0415 (seconds; only tests that need a checkpoint pay them)
    from tokenizers import Tokenizer, models, pre_tokenizers  # noqa: PLC0415
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
    config = LlavaConfig(
        vision_config=CLIPVisionConfig(
            hidden_size=HIDDEN,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            image_size=IMAGE_SIZE,
            patch_size=PATCH_SIZE,
        ),
        text_config=LlamaConfig(
            hidden_size=HIDDEN,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=2,
            vocab_size=len(WORDS),
            max_position_embeddings=128,
        ),
        image_token_index=IMAGE_TOKEN,
        vision_feature_layer=-1,
    )
    model = LlavaForConditionalGeneration(config)
    model.generation_config.eos_token_id = WORDS.index("</s>")
    model.generation_config.pad_token_id = WORDS.index("<pad>")
    if shard_bytes is None:
        model.save_pretrained(directory)
    else:
        model.save_pretrained(directory, max_shard_size=shard_bytes)
    words = Tokenizer(models.WordLevel({word: at for at, word in enumerate(WORDS)}, "<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=words,
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        additional_special_tokens=["<image>"],
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
        chat_template="{% for m in messages %}{{ m.role }} : {{ m.content }} {% endfor %}",
    ).save_pretrained(directory)
    return directory
