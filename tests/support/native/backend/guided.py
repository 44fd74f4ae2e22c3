"""What TensorRT-LLM's backend keeps answers to, by the Reference engine's guides.

Runs inside tritonserver. Rules: `triton_backend/inflight_batcher_llm/src/model_instance_state.cc`
(`getGuidedDecodingConfigFromParams`) and `cpp/tensorrt_llm/batch_manager/guidedDecoder.cpp`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from checks import RefusedError, demand  # type: ignore[import-not-found]

from mm_runtime.reference_engine.guides import Guide, Guides
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.generate.request import GuideKind, GuideRequest
from mm_runtime.serving.prompts.tokens import TextCodec

TYPE, GUIDE = "guided_decoding_guide_type", "guided_decoding_guide"
KINDS = {
    "json": GuideKind.JSON,
    "json_schema": GuideKind.JSON_SCHEMA,
    "regex": GuideKind.REGEX,
    "ebnf_grammar": GuideKind.LARK,
}
ROOT = "root ::= "
NOT_SET_UP = (
    "Request is specified with GuidedDecodingParams, but GuidedDecoder is not setup. Please "
    "provide a valid GuidedDecodingConfig to setup GuidedDecoder."
)


def read_table(given: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the tokenizer's table that the parameters name; None: nothing is guided, silently."""
    backend, path = given["guided_decoding_backend"], given["xgrammar_tokenizer_info_path"]
    if not backend or not path:
        return None
    demand(Path(path).exists(), f"Xgrammar's tokenizer info path at {path} does not exist.")
    table: dict[str, Any] = json.loads(Path(path).read_text())
    for name, kind in (("encoded_vocab", str), ("stop_token_ids", int)):
        demand(all(isinstance(one, kind) for one in table[name]), f"type of {name} must be {kind}")
    demand(isinstance(table["tokenizer_str"], str), "type of tokenizer_str must be string")
    demand(backend == "xgrammar", "Guided decoding is currently supported with 'xgrammar' backend.")
    return table


class Guided:
    """The guides of one engine."""

    def __init__(self, table: dict[str, Any] | None, tokenizer: Path, logits: int) -> None:
        self._guides: Guides | None = None
        self._ends: frozenset[int] = frozenset()
        if table is None:
            return
        names = table["encoded_vocab"]
        demand(len(names) <= logits, f"{len(names)} tokens do not fit a mask of {logits}")
        codec = TextCodec(tokenizer)
        demand(
            all(codec.name_of(token) == name for token, name in enumerate(names)),
            "the table is of another tokenizer",
        )
        self._ends = frozenset(table["stop_token_ids"])
        self._guides = Guides(codec, vocabulary_size=logits, end_ids=self._ends)

    def take(self, inputs: dict[str, Any]) -> Guide | None:
        """Remove the form from a request, and return what keeps the answer to it."""
        kind, guide = inputs.pop(TYPE, None), inputs.pop(GUIDE, None)
        if kind is None:
            return None
        name = kind.reshape(-1)[0].decode()
        demand(self._guides is not None, NOT_SET_UP)
        assert self._guides is not None
        demand(name in KINDS, f"Guided decoding guide type {name} is not one of {sorted(KINDS)}")
        demand(guide is not None or name == "json", "Guided decoding needs a guide")
        end = inputs.get("end_id")
        demand(
            end is not None and int(end.reshape(-1)[0]) in self._ends,
            "the end token is none of the table's: the matcher would be filled behind its end",
        )
        text = "" if guide is None else guide.reshape(-1)[0].decode()
        if name == "ebnf_grammar":
            demand(text.startswith(ROOT), "EBNF parse error: The root rule with name root is not")
            text = f"start: {text.removeprefix(ROOT)}\n"
        try:
            found = self._guides.make(GuideRequest(KINDS[name], text))
        except RequestError as error:  # in the words of xgrammar's own
            raise RefusedError(f"[12:00:00] /project/cpp/regex_converter.cc:75: {error}") from None
        assert isinstance(found, Guide)
        return found
