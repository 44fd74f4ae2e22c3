"""Write the sample images, a video and `answers.json`: questions whose answers are known.

python examples/tiny-qwen2-5-vl/samples.py --out examples/tiny-qwen2-5-vl/images
"""

import argparse
import json
from pathlib import Path

import av
import numpy as np
import scenes

PLACE = (0.5, 0.5, 0.65)
SCALE = 4
"""Samples are larger than what the model sees: the processor scales them."""

FRAMES_A_SECOND = 8
SECONDS = 2

IMAGES = {"red-circle": ("red", "circle"), "blue-triangle": ("blue", "triangle")}
VIDEO = ("green", "purple", "square")


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    known: dict[str, dict[str, str]] = {}
    side = scenes.SIDE * SCALE
    for name, (colour, shape) in IMAGES.items():
        scenes.draw(colour, shape, PLACE).resize((side, side)).save(out / f"{name}.png")
        known[f"{name}.png"] = {
            question: answer.format(colour=colour, shape=shape)
            for question, answer in scenes.ABOUT_IMAGES.items()
        }
    first, last, shape = VIDEO
    name = f"{first}-then-{last}-{shape}.mp4"
    halves = [scenes.draw(one, shape, PLACE).resize((side, side)) for one in (first, last)]
    write_video(out / name, [np.asarray(one) for one in halves])
    known[name] = {
        question: answer.format(colour=first, colour2=last, shape=shape)
        for question, answer in scenes.ABOUT_VIDEOS.items()
    }
    (out / "answers.json").write_text(json.dumps(known, indent=2) + "\n")


def write_video(path: Path, images: list[np.ndarray]) -> None:
    """Write a video that shows each image equally long."""
    count = FRAMES_A_SECOND * SECONDS
    with av.open(str(path), "w") as output:
        stream = output.add_stream("h264", rate=FRAMES_A_SECOND)
        stream.height, stream.width = images[0].shape[:2]
        stream.pix_fmt = "yuv420p"
        for number in range(count):
            frame = av.VideoFrame.from_ndarray(images[number * len(images) // count], "rgb24")
            for packet in stream.encode(frame):
                output.mux(packet)
        for packet in stream.encode(None):
            output.mux(packet)


if __name__ == "__main__":
    main()
