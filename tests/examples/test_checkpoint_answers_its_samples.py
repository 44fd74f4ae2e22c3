"""The committed checkpoint answers the committed samples, through transformers alone."""

import pytest
from PIL import Image
from transformers import (
    CLIPImageProcessorPil,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    PreTrainedTokenizerFast,
)

from support.tiny_llava import CHECKPOINT, Sample, samples


@pytest.fixture(scope="module")
def model() -> LlavaForConditionalGeneration:
    return LlavaForConditionalGeneration.from_pretrained(CHECKPOINT).eval()


@pytest.fixture(scope="module")
def processor() -> LlavaProcessor:
    """The checkpoint's processor, with the image part that needs no torchvision."""
    return LlavaProcessor(
        CLIPImageProcessorPil.from_pretrained(CHECKPOINT),
        PreTrainedTokenizerFast.from_pretrained(CHECKPOINT),
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=(CHECKPOINT / "chat_template.jinja").read_text(),
    )


@pytest.mark.parametrize("sample", [pytest.param(sample, id=sample.id) for sample in samples()])
def test_sample(
    sample: Sample, model: LlavaForConditionalGeneration, processor: LlavaProcessor
) -> None:
    """The answer is right word for word."""
    content = [{"type": "image"}, {"type": "text", "text": sample.question}]
    prompt = processor.apply_chat_template(
        [{"role": "user", "content": content}], add_generation_prompt=True
    )
    inputs = processor(text=prompt, images=Image.open(sample.image), return_tensors="pt")
    inputs.pop("token_type_ids", None)
    ids = model.generate(**inputs, max_new_tokens=24, do_sample=False)
    answer = processor.tokenizer.decode(
        ids[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True
    )
    assert sample.answer == answer
