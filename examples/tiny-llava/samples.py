"""Write the sample images and `answers.json`: questions whose answers are known.

python examples/tiny-llava/samples.py --out examples/tiny-llava/images
"""

import argparse
import json
from pathlib import Path

import numpy as np
import shapes
from shapes import MIDDLE, Thing

SIDE = 224
SEED = 20

SAMPLES: dict[str, tuple[shapes.Scene, dict[str, str]]] = {
    "red-square.png": (
        (Thing("red", "square", "bottom left"),),
        {
            "What is in the image?": "a red square",
            "What color is it?": "red",
            "Where is it?": "bottom left",
            "How many shapes are there?": "one",
        },
    ),
    "big-green-triangle.png": (
        (Thing("green", "triangle", MIDDLE),),
        {
            "What shape is it?": "triangle",
            "What do you see?": "a green triangle",
            "Where is it?": "center",
        },
    ),
    "orange-cross.png": (
        (Thing("orange", "cross", "top right"),),
        {
            "What color is the cross?": "orange",
            "What is the orange shape?": "cross",
            "Where is the orange cross?": "top right",
        },
    ),
    "blue-triangle-never-trained-on.png": (
        (Thing("blue", "triangle", "top left"),),
        {"What color is it?": "blue", "What shape is it?": "triangle"},
    ),
    "blue-circle-yellow-cross.png": (
        (Thing("blue", "circle", "top left"), Thing("yellow", "cross", "bottom right")),
        {
            "Describe the image.": "a blue circle and a yellow cross",
            "How many shapes are there?": "two",
        },
    ),
    "three-shapes.png": (
        (
            Thing("purple", "square", "top right"),
            Thing("orange", "triangle", "bottom left"),
            Thing("pink", "circle", "bottom right"),
        ),
        {
            "How many shapes are in the image?": "three",
            "What can you see in this picture?": (
                "a purple square and an orange triangle and a pink circle"
            ),
        },
    ),
    "four-shapes.png": (
        (
            Thing("black", "cross", "top left"),
            Thing("red", "circle", "top right"),
            Thing("blue", "square", "bottom left"),
            Thing("yellow", "triangle", "bottom right"),
        ),
        {
            "How many objects are in the picture?": "four",
            "What is in the image?": (
                "a black cross and a red circle and a blue square and a yellow triangle"
            ),
        },
    ),
}
"""File name -> what is drawn, and questions with their right answers."""


def main() -> None:
    """Draw every sample and write the answers beside them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for images and answers")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(SEED)
    for name, (scene, _) in SAMPLES.items():
        shapes.draw(scene, rng, SIDE).save(options.out / name, optimize=True)
    answers = {name: answers for name, (_, answers) in SAMPLES.items()}
    (options.out / "answers.json").write_text(json.dumps(answers, indent=2) + "\n")


if __name__ == "__main__":
    main()
