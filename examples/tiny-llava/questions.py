"""Questions about a scene, how people phrase them, and the one right answer.

Each kind of question has several phrasings; `{colour}` and `{shape}` are filled from the scene, and
only when they name exactly one thing. Answers are lower-case words without punctuation.
"""

from dataclasses import dataclass

import numpy as np
from shapes import Scene, Thing

NUMBERS = ("zero", "one", "two", "three", "four")
NO_IMAGE = "i see no image"
GREETING = "i answer questions about shapes"

CAPTION = (
    "What is in the image?",
    "What is in the picture?",
    "What is in this image?",
    "What's in this image?",
    "What do you see?",
    "What can you see in this picture?",
    "What is shown here?",
    "Describe the image.",
    "Describe this picture.",
    "What is this?",
)
COLOUR = (
    "What color is it?",
    "What color is the shape?",
    "Which color is this?",
    "What is the color of the shape?",
    "Which color does it have?",
    "What colour is it?",
)
COLOUR_OF = (
    "What color is the {shape}?",
    "Which color is the {shape}?",
    "What is the color of the {shape}?",
    "Which color does the {shape} have?",
    "What colour is the {shape}?",
)
COUNT = (
    "How many shapes?",
    "How many shapes are there?",
    "How many shapes are in the image?",
    "How many objects are in the picture?",
    "How many things do you see?",
    "Count the shapes.",
)
SHAPE = (
    "What shape is it?",
    "Which shape is this?",
    "What shape is this?",
    "What is the shape?",
    "Which shape do you see?",
)
SHAPE_OF = (
    "What shape is the {colour} one?",
    "What shape is {colour}?",
    "Which shape is {colour}?",
    "What is the {colour} shape?",
    "What is the shape of the {colour} object?",
)
PLACE = ("Where is it?", "Where is the shape?", "In which corner is it?", "Where do you see it?")
PLACE_OF = (
    "Where is the {colour} {shape}?",
    "Where is the {shape}?",
    "Where is the {colour} shape?",
    "In which corner is the {shape}?",
)
WITHOUT_IMAGE = ("Hello!", "Hi.", "Who are you?", "What can you do?", "What are you?")
ENDINGS = ("Answer in one word.", "Answer briefly.", "Please answer.", "Be short.")
SYSTEM = (
    "You are a helpful assistant.",
    "Answer the question about the image.",
    "A chat between a curious user and an assistant.",
)
ORDINALS = ("first", "second")
OF_ONE = (
    "What is in the {ordinal} image?",
    "What is in the {ordinal} picture?",
    "What do you see in the {ordinal} image?",
    "Describe the {ordinal} image.",
)
COLOUR_OF_ONE = (
    "What color is the shape in the {ordinal} image?",
    "Which color does the {ordinal} picture have?",
)

ALL_TEXT = (
    *CAPTION, *COLOUR, *COLOUR_OF, *COUNT, *SHAPE, *SHAPE_OF, *PLACE,
    *PLACE_OF, *WITHOUT_IMAGE,
    *ENDINGS, *SYSTEM, *ORDINALS, *OF_ONE, *COLOUR_OF_ONE, *NUMBERS, NO_IMAGE, GREETING,
)  # fmt: skip
"""Every phrase the tokenizer must know, apart from colours, shapes and places."""

ENDING_SHARE = 0.15
GREETING_SHARE = 0.4
FULL_SHARE = 0.6
"""How often a question on one of two images is about everything in it."""

NAMED_SHARE = 0.2
"""How often a single thing is called by its name instead of "it"."""

KINDS = ("caption", "colour", "count", "shape", "place")
ABOUT_SEVERAL = ("caption", "count")
"""Kinds with questions about one to four things; the others with questions about one."""

KIND_WEIGHTS = (0.3, 0.17, 0.1, 0.28, 0.15)
"""Shape and caption come more often: they are the hardest kinds on pairs never trained on."""


@dataclass(frozen=True)
class Turn:
    """One question and its right answer."""

    kind: str
    question: str
    answer: str


def caption(scene: Scene) -> str:
    """Return the scene as text, in reading order: `a red square and a blue circle`.

    A thing without a word for its colour is `a square`, one without a word for its shape `a red
    shape`.
    """
    words = [f"{thing.colour} {thing.shape or 'shape'}".strip() for thing in scene]
    return " and ".join(f"{_article(word)} {word}" for word in words)


def random_turn(
    scene: Scene, rng: np.random.Generator, kind: str | None = None, *, plain: bool = False
) -> Turn:
    """Return one question of the kind (default: drawn by weight) that the scene answers.

    Args:
        scene: the things in the image.
        rng: source of every choice.
        kind: one of `KINDS`, or None.
        plain: leave out the endings such as "Answer in one word.".
    """
    kind = kind or str(rng.choice(KINDS, p=KIND_WEIGHTS))
    question, answer = _query(scene, rng, kind)
    if not plain and rng.random() < ENDING_SHARE:
        question = f"{question} {_pick(rng, ENDINGS)}"
    return Turn(kind, question, answer)


def pair_turn(scenes: tuple[Scene, Scene], rng: np.random.Generator) -> Turn:
    """Return a question on one of two images that each show one thing."""
    which = int(rng.integers(2))
    thing = scenes[which][0]
    if rng.random() < FULL_SHARE:
        question = _pick(rng, OF_ONE).format(ordinal=ORDINALS[which])
        return Turn("caption", question, caption(scenes[which]))
    question = _pick(rng, COLOUR_OF_ONE).format(ordinal=ORDINALS[which])
    return Turn("colour", question, thing.colour)


def turn_without_image(rng: np.random.Generator) -> Turn:
    """Return a greeting, or a question about an image that is not there."""
    if rng.random() < GREETING_SHARE:
        return Turn("text", _pick(rng, WITHOUT_IMAGE), GREETING)
    kinds = (CAPTION, COLOUR, COUNT, SHAPE, PLACE)
    return Turn("text", _pick(rng, kinds[int(rng.integers(len(kinds)))]), NO_IMAGE)


def _query(scene: Scene, rng: np.random.Generator, kind: str) -> tuple[str, str]:
    """Return question and answer; several things are only counted or described."""
    thing = scene[0]
    forms: tuple[str, ...] = ()
    answer = ""
    if kind == "count":
        forms, answer = COUNT, NUMBERS[len(scene)]
    elif len(scene) == 1 and kind == "colour" and thing.colour:
        named = thing.shape and rng.random() < NAMED_SHARE
        forms, answer = (COLOUR_OF if named else COLOUR), thing.colour
    elif len(scene) == 1 and kind == "shape" and thing.shape:
        named = thing.colour and rng.random() < NAMED_SHARE
        forms, answer = (SHAPE_OF if named else SHAPE), thing.shape
    elif len(scene) == 1 and kind == "place":
        named = thing.colour and thing.shape and rng.random() < NAMED_SHARE
        forms, answer = (PLACE_OF if named else PLACE), thing.cell
    if forms:
        return _fill(rng, forms, thing), answer
    return _pick(rng, CAPTION), caption(scene)


def _article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"


def _pick(rng: np.random.Generator, phrases: tuple[str, ...]) -> str:
    return phrases[int(rng.integers(len(phrases)))]


def _fill(rng: np.random.Generator, phrases: tuple[str, ...], thing: Thing) -> str:
    return _pick(rng, phrases).format(colour=thing.colour, shape=thing.shape)
