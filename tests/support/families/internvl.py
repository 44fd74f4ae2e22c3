"""InternVL 3 for tests, with Qwen2 as its language model."""

from pathlib import Path

from support.families.case import Case
from support.families.checkpoints import PATCH, SHARED, SIDE, TEXT, save, t, write_processor
from support.families.words import id_of, write_tokenizer

TEMPLATE = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n'}}"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for content in message['content'] %}{% if content['type'] == 'image' %}"
    "{{ '<IMG_CONTEXT>\n' }}{% elif content['type'] == 'text' %}{{ content['text'] }}"
    "{% endif %}{% endfor %}{% endif %}{{'<|im_end|>\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{'<|im_start|>assistant\n' }}{% endif %}"
)
"""That of InternVL3's checkpoints, without videos."""


def write(folder: Path) -> None:
    tokens = ("<|im_start|>", "<|im_end|>", "<img>", "</img>", "<IMG_CONTEXT>")
    vision = t.InternVLVisionConfig(**SHARED, image_size=[SIDE, SIDE], patch_size=[PATCH // 2] * 2)
    config = t.InternVLConfig(
        vision_config=vision.to_dict(),
        text_config=t.Qwen2Config(**TEXT).to_dict(),
        image_token_id=id_of("<IMG_CONTEXT>", tokens),
        image_seq_length=4,
        tie_word_embeddings=False,
    )
    save(t.InternVLForConditionalGeneration(config), folder)
    write_tokenizer(folder, tokens)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    write_processor(
        folder,
        image_processor_type="GotOcr2ImageProcessor",
        size={"height": SIDE, "width": SIDE},
        crop_to_patches=True,
        min_patches=1,
        max_patches=6,
    )


CASE = Case(
    write,
    prompt="<|im_start|>user\n{images}what is in the image ?<|im_end|>\n<|im_start|>assistant\n",
    mark="<IMG_CONTEXT>\n",
    image_processor="GotOcr2ImageProcessorPil",
    vision_config="transformers:InternVLVisionConfig",
    text_kind="qwen2",
    refused_configurations=(
        ({"text_config": {"model_type": "phi3"}}, "expected one of qwen2"),
        ({"vision_feature_layer": -4}, "vision_feature_layer is -4"),
        ({"downsample_ratio": 0.25}, "downsample_ratio is 0.25"),
    ),
)
