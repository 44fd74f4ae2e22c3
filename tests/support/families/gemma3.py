"""Gemma 3 for tests: of three layers the last one attends to all positions."""

from pathlib import Path

from support.families.case import Case
from support.families.checkpoints import PATCH, SHARED, SIDE, TEXT, save, t, write_processor
from support.families.words import id_of, name_extras, write_tokenizer

TOKENS = (
    *("<start_of_turn>", "<end_of_turn>", "<start_of_image>", "<end_of_image>"),
    "<image_soft_token>",
)

TEMPLATE = (
    "{{ bos_token }}{%- for message in messages -%}"
    "{%- if (message['role'] == 'assistant') -%}{%- set role = 'model' -%}"
    "{%- else -%}{%- set role = message['role'] -%}{%- endif -%}"
    "{{ '<start_of_turn>' + role + '\n' }}"
    "{%- if message['content'] is string -%}{{ message['content'] | trim }}"
    "{%- elif message['content'] is iterable -%}{%- for item in message['content'] -%}"
    "{%- if item['type'] == 'image' -%}{{ '<start_of_image>' }}"
    "{%- elif item['type'] == 'text' -%}{{ item['text'] | trim }}{%- endif -%}{%- endfor -%}"
    "{%- else -%}{{ raise_exception('Invalid content type') }}{%- endif -%}"
    "{{ '<end_of_turn>\n' }}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<start_of_turn>model\n' }}{%- endif -%}"
)
"""That of Gemma 3's checkpoints, without system prompts and the check of turns."""


def write(folder: Path) -> None:
    vision = t.SiglipVisionConfig(**SHARED, image_size=2 * SIDE, patch_size=PATCH // 2)
    text = t.Gemma3TextConfig(
        **TEXT | {"num_hidden_layers": 3, "head_dim": 64, "query_pre_attn_scalar": 4},
        # Shorter than an image, so that even its own features are partly out of sight.
        sliding_window=6,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"],
        rope_parameters={
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        },
    )
    config = t.Gemma3Config(
        vision_config=vision.to_dict(),
        text_config=text.to_dict(),
        image_token_index=id_of("<image_soft_token>", TOKENS),
        boi_token_index=id_of("<start_of_image>", TOKENS),
        eoi_token_index=id_of("<end_of_image>", TOKENS),
        mm_tokens_per_image=16,
    )
    save(t.Gemma3ForConditionalGeneration(config), folder, embeddings=0.4)
    write_tokenizer(folder, TOKENS)
    name_extras(folder, tuple("\\n" * count for count in range(1, 5)))  # vLLM looks for them
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    write_processor(
        folder,
        image_processor_type="Gemma3ImageProcessor",
        size={"height": 2 * SIDE, "width": 2 * SIDE},
        do_pan_and_scan=None,
        resample=2,
    )


CASE = Case(
    write,
    prompt="<s><start_of_turn>user\n{images}what is in the image ?<end_of_turn>\n"
    "<start_of_turn>model\n",
    mark="<start_of_image>",
    image_processor="Gemma3ImageProcessorPil",
    vision_config="transformers:SiglipVisionConfig",
    text_kind="gemma3_text",
    refused_configurations=(
        ({"text_config": {"model_type": "gemma3n_text"}}, "expected gemma3_text"),
        ({"text_config": {"final_logit_softcapping": 30.0}}, "final_logit_softcapping is 30.0"),
        ({"mm_tokens_per_image": 200}, "mm_tokens_per_image is 200"),
        ({"mm_tokens_per_image": 25}, "divides the 64 patches"),
    ),
)
