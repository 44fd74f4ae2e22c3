"""A LLaVA checkpoint with random weights that can say any text: its tokens are bytes.

What it says is noise; a form makes its answers the calls, the JSON or the words that tests read.
"""

from pathlib import Path

from mm_runtime.serving.prompts.byte_letters import byte_letters

BEGIN, END, PAD, IMAGE = 256, 257, 258, 259
CONTROL = ("<s>", "</s>", "<pad>", "<image>", "[TOOL_CALLS]")
SIZE = 256 + len(CONTROL)
POSITIONS = 2048
LIMITS = {"max_input_len": 1536, "max_seq_len": POSITIONS, "max_num_tokens": 4096}
"""Of an engine with room for functions."""


def write_calling_llava(directory: Path, template: str) -> Path:
    import torch  # noqa: PLC0415 (seconds; only tests that need a checkpoint pay them)
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers  # noqa: PLC0415
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
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            image_size=28,
            patch_size=14,
        ),
        text_config=LlamaConfig(
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=2,
            head_dim=32,  # vLLM's kernels for CPUs have none below
            vocab_size=SIZE,
            max_position_embeddings=POSITIONS,
        ),
        image_token_index=IMAGE,
        vision_feature_layer=-1,
    )
    model = LlavaForConditionalGeneration(config)
    model.generation_config.eos_token_id = END
    model.generation_config.pad_token_id = PAD
    model.save_pretrained(directory)
    letters = byte_letters()
    vocabulary = {letters[byte]: byte for byte in range(256)}
    vocabulary |= {token: 256 + at for at, token in enumerate(CONTROL)}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        additional_special_tokens=["<image>", "[TOOL_CALLS]"],
    )
    LlavaProcessor(  # type: ignore[no-untyped-call]
        image_processor=CLIPImageProcessor(
            size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28}
        ),
        tokenizer=fast,
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=template,
    ).save_pretrained(directory)
    return directory
