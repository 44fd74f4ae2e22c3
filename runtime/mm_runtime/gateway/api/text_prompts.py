"""Wire types of prompts of completions: texts or ids of tokens, one or several."""

from typing import Annotated

from pydantic import Discriminator, Field, Tag

INT31 = 2**31 - 1
"""Largest id of a token: engines have 32 bits."""


def _form_of_prompt(prompt: object) -> str:
    """Return the branch of a prompt, of a list by its first element: all are of one kind."""
    if not isinstance(prompt, list):
        return "<string>"
    if not prompt or isinstance(prompt[0], str):
        return "<texts>"
    return "<prompts>" if isinstance(prompt[0], list) else "<tokens>"


_Text = Annotated[str, Field(min_length=1)]
_PromptId = Annotated[int, Field(strict=True, ge=0, le=INT31)]
"""Strict: of a list of ids and texts no text becomes an id."""
_PromptIds = Annotated[list[_PromptId], Field(min_length=1)]

Prompt = Annotated[
    Annotated[_Text, Tag("<string>")]
    | Annotated[list[_Text], Field(min_length=1), Tag("<texts>")]
    | Annotated[_PromptIds, Tag("<tokens>")]
    | Annotated[list[_PromptIds], Field(min_length=1), Tag("<prompts>")],
    Discriminator(_form_of_prompt),
]


def each_of(prompt: Prompt) -> list[str | list[int]]:
    """Return the prompts one by one; a list of ids is one."""
    if isinstance(prompt, str):
        return [prompt]
    ids = [one for one in prompt if isinstance(one, int)]
    return [ids] if ids else [one for one in prompt if not isinstance(one, int)]


def count_of(prompt: Prompt) -> int:
    return len(each_of(prompt))
