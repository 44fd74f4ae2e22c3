"""What transformers answers with a checkpoint of any class, through its own processor."""

from pathlib import Path
from typing import Any

from support.families.expected import ANSWER
from support.families.words import END

QUESTION = "what is in the image ?"


class Upstream:
    """A checkpoint in transformers, with its processor."""

    def __init__(self, folder: Path) -> None:
        import transformers  # noqa: PLC0415 (seconds)

        kind = transformers.AutoModelForImageTextToText
        self.model: Any = kind.from_pretrained(folder).eval()
        self.processor: Any = transformers.AutoProcessor.from_pretrained(folder)

    def answer(self, images: list[Any]) -> list[int]:
        """Return the tokens of the answer about images."""
        import torch  # noqa: PLC0415 (seconds)

        if self.processor.chat_template:
            parts: list[dict[str, Any]] = [{"type": "image", "image": one} for one in images]
            parts.append({"type": "text", "text": QUESTION})
            given = self.processor.apply_chat_template(
                [{"role": "user", "content": parts}],
                add_generation_prompt=True,
                tokenize=True,
                return_dict=True,
                return_tensors="pt",
            )
        else:
            text = "<image>" * len(images) + QUESTION
            given = self.processor(text=text, images=images or None, return_tensors="pt")
        # Llama 4's processor makes pixels in bfloat16, whatever the weights are.
        given = given.to(dtype=self.model.dtype)
        with torch.no_grad():
            found = self.model.generate(**given, max_new_tokens=ANSWER, do_sample=False)
        answer: list[int] = found[0, given["input_ids"].shape[1] :].tolist()
        return answer[: answer.index(END)] if END in answer else answer
