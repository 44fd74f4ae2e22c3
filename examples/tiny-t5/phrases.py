"""Sentences about coloured shapes in English and in German, drawn together.

German needs more than a word for each word: articles and adjectives follow a noun's gender, number
and case, so a model has to read the noun before it writes the article.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np

PREFIX = "translate English to German: "


class Gender(Enum):
    """Of German nouns; the value is its row in the tables of endings."""

    MASCULINE = 0
    FEMININE = 1
    NEUTER = 2


@dataclass(frozen=True)
class Noun:
    """One thing in both languages, with its plural."""

    english: str
    english_plural: str
    german: str
    german_plural: str
    gender: Gender

    @property
    def german_dative_plural(self) -> str:
        """The plural ends with n there."""
        return self.german_plural if self.german_plural.endswith("n") else f"{self.german_plural}n"


NOUNS = (
    Noun("square", "squares", "Quadrat", "Quadrate", Gender.NEUTER),
    Noun("circle", "circles", "Kreis", "Kreise", Gender.MASCULINE),
    Noun("triangle", "triangles", "Dreieck", "Dreiecke", Gender.NEUTER),
    Noun("cross", "crosses", "Kreuz", "Kreuze", Gender.NEUTER),
    Noun("star", "stars", "Stern", "Sterne", Gender.MASCULINE),
    Noun("line", "lines", "Linie", "Linien", Gender.FEMININE),
    Noun("wave", "waves", "Welle", "Wellen", Gender.FEMININE),
)
COLOURS = (
    *(("red", "rot"), ("green", "grün"), ("blue", "blau")),
    *(("yellow", "gelb"), ("black", "schwarz"), ("white", "weiß")),
)
SIZES = (("small", "klein"), ("large", "groß"))
NUMBERS = (("two", "zwei"), ("three", "drei"), ("four", "vier"))
PLACES = (
    *(("left of", "links von"), ("right of", "rechts von"), ("above", "über")),
    *(("below", "unter"), ("beside", "neben")),
)
"""All five require the dative."""

A = (("ein", "einem"), ("eine", "einer"), ("ein", "einem"))
THE = (("der", "dem"), ("die", "der"), ("das", "dem"))
"""Gender -> nominative and dative."""

AFTER_A = (("er", "en"), ("e", "en"), ("es", "en"))
AFTER_THE = (("e", "en"), ("e", "en"), ("e", "en"))
AFTER_NUMBER = ("e", "en")
"""Endings of adjectives, likewise."""

HELD_OUT = frozenset({("red", "wave"), ("blue", "cross"), ("green", "star"), ("white", "circle")})
"""Colours and things that no training sentence puts together."""


@dataclass(frozen=True)
class Pair:
    """One sentence in both languages."""

    english: str
    german: str


def draw(rng: np.random.Generator, *, held_out: bool = False) -> Pair:
    """Return a sentence; with `held_out` its first phrase joins what training keeps apart."""
    first = _phrase(rng, dative=False, held_out=held_out)
    second = _phrase(rng, dative=True, held_out=False)
    english, german = PLACES[int(rng.integers(len(PLACES)))]
    plural = first.german.split()[0] in {word for _, word in NUMBERS}
    kind = int(rng.integers(4))
    if kind == 0:
        return first
    if kind == 1:
        return Pair(
            f"{first.english} {english} {second.english}",
            f"{first.german} {german} {second.german}",
        )
    be = ("are", "sind") if plural else ("is", "ist")
    if kind == 2:  # noqa: PLR2004 - one of four
        return Pair(f"where {be[0]} {first.english} ?", f"wo {be[1]} {first.german} ?")
    return Pair(
        f"{first.english} {be[0]} {english} {second.english} .",
        f"{first.german} {be[1]} {german} {second.german} .",
    )


def _phrase(rng: np.random.Generator, *, dative: bool, held_out: bool) -> Pair:
    while True:
        noun = NOUNS[int(rng.integers(len(NOUNS)))]
        colour = COLOURS[int(rng.integers(len(COLOURS)))]
        if ((colour[0], noun.english) in HELD_OUT) == held_out:
            break
    adjectives = [colour] if held_out or rng.random() < 0.8 else []  # noqa: PLR2004 - a share
    if rng.random() < 0.3:  # noqa: PLR2004 - a share
        adjectives.insert(0, SIZES[int(rng.integers(len(SIZES)))])
    row, case = noun.gender.value, int(dative)
    determiner = rng.random()
    if determiner < 0.25:  # noqa: PLR2004 - a share
        number, zahl = NUMBERS[int(rng.integers(len(NUMBERS)))]
        ending = AFTER_NUMBER[case]
        thing = noun.german_dative_plural if dative else noun.german_plural
        return _join(number, zahl, adjectives, ending, (noun.english_plural, thing))
    if determiner < 0.6:  # noqa: PLR2004 - a share
        words = (noun.english, noun.german)
        return _join("a", A[row][case], adjectives, AFTER_A[row][case], words)
    words = (noun.english, noun.german)
    return _join("the", THE[row][case], adjectives, AFTER_THE[row][case], words)


def _join(
    english: str, german: str, adjectives: list[tuple[str, str]], ending: str, noun: tuple[str, str]
) -> Pair:
    return Pair(
        " ".join([english, *(one for one, _ in adjectives), noun[0]]),
        " ".join([german, *(one + ending for _, one in adjectives), noun[1]]),
    )


def words() -> list[str]:
    """Return every word of both languages, in an order that never changes."""
    found = ["translate", "english", "to", "german", ":", "?", ".", "a", "the", "is", "are"]
    found += ["where", "wo", "ist", "sind", "left", "of", "right", "above", "below", "beside"]
    found += ["links", "rechts", "von", "über", "unter", "neben"]
    for noun in NOUNS:
        found += [noun.english, noun.english_plural, noun.german, noun.german_plural]
        found.append(noun.german_dative_plural)
    for english, german in (*COLOURS, *SIZES):
        found += [english, *(german + ending for ending in ("e", "er", "es", "en"))]
    found += [word for pair in NUMBERS for word in pair]
    found += [word for table in (A, THE) for row in table for word in row]
    return list(dict.fromkeys(found))
