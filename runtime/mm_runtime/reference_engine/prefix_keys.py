"""PURE: names of the blocks of a prompt, by which keys and values of earlier ones are found again.

A block's name is a digest of all that its keys and values depend on: its tokens and those before
them, the images whose features stand between them, the adapter, how positions are rotated. The salt
stands in front of all, so that requests of another one never find it.
"""

import hashlib
from collections.abc import Sequence

import numpy as np

from mm_runtime.serving.generate.request import Request

BLOCK = 16
"""Positions of a block: vLLM's default. On average half of them are computed again behind what was
found."""

_DIGEST_BYTES = 16


def block_names(
    request: Request, tokens: Sequence[int], *, vocabulary: int, rotation_width: int = 0
) -> list[bytes]:
    """Return the names of the complete blocks of a prompt, or of a prompt and its answer.

    They end before a position whose content is not known: a feature without an id, and behind a
    prompt that brings its rotations the answer, whose rotations the engine computes itself; the
    next prompt brings others for the same tokens, which are equal but for rounding.

    `tokens`: its ids, followed by those of its answer. `vocabulary`: number of tokens; ids from
    there on are features.
    """
    ids, extra = np.asarray(tokens, np.int64), np.zeros(len(tokens), np.uint64)
    if request.row_ids is not None:
        known = request.row_ids[: len(tokens)]
        extra[: len(known)] = known
    unknown = np.flatnonzero((ids >= vocabulary) & (extra == 0))
    length = int(unknown[0]) if len(unknown) else len(ids)
    rotated = request.rotation is not None
    if rotated or request.rotation_delta:
        length = min(length, len(request.ids))
    described = [ids[:length, None].astype(np.uint64), extra[:length, None]]
    if request.rotation is not None:
        turns = np.ascontiguousarray(request.rotation, np.float32).reshape(-1)
        turns = turns[: length * rotation_width].reshape(length, rotation_width)
        described.append(turns.view(np.uint32).astype(np.uint64))
    units = np.concatenate(described, axis=1)
    name = _digest(f"{request.adapter};{rotated};{request.salt}".encode())
    names = []
    for start in range(0, length - BLOCK + 1, BLOCK):
        name = _digest(name + units[start : start + BLOCK].tobytes())
        names.append(name)
    return names


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()
