"""Two images in one question, streamed: python two_images.py ADDRESS MODEL IMAGE IMAGE."""

import base64
import sys
from pathlib import Path

from openai import OpenAI


def image(path: str) -> dict[str, object]:
    """Return a file as the part of a message."""
    encoded = base64.b64encode(Path(path).read_bytes()).decode()
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{encoded}"}}


def main(address: str, model: str, *images: str) -> None:
    """Print the answer as it comes; each chunk has a text, the last one an empty one."""
    client = OpenAI(base_url=f"{address}/v1", api_key="EMPTY")
    question = {"type": "text", "text": "what is in the first image ?"}
    response = client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": [question, *map(image, images)]}],
        max_completion_tokens=64,
        top_p=0.5,
        temperature=0.1,
        frequency_penalty=1.05,
        stream=True,
    )
    full = ""
    for chunk in response:
        full += chunk.choices[0].delta.content
    print(full)


if __name__ == "__main__":
    main(*sys.argv[1:])
