"""A video of which two frames a second are seen, streamed: python video.py ADDRESS MODEL VIDEO."""

import base64
import sys
from pathlib import Path

from openai import OpenAI


def main(address: str, model: str, video: str) -> None:
    """Print the answer and the tokens of the prompt, of which most are the video's."""
    client = OpenAI(base_url=f"{address}/v1", api_key="EMPTY")
    encoded = base64.b64encode(Path(video).read_bytes()).decode()
    url = {"url": f"data:video/mp4;base64,{encoded}", "fps": 2}
    parts = [
        {"type": "text", "text": "what is in the video ?"},
        {"type": "video_url", "video_url": url},
    ]
    response = client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": parts}],
        max_completion_tokens=64,
        top_p=0.5,
        temperature=0.1,
        stream=True,
        stream_options={"include_usage": True},
    )
    full, tokens = "", 0
    for chunk in response:
        full += chunk.choices[0].delta.content if chunk.choices else ""
        tokens = chunk.usage.prompt_tokens if chunk.usage else tokens
    print(full)
    print(f"{tokens} prompt tokens")


if __name__ == "__main__":
    main(*sys.argv[1:])
