"""BART's vocab.json and merges.txt become a tokenizer.json that gives the same ids."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import ByteLevelBPETokenizer
from tokenizers.pre_tokenizers import ByteLevel

from mm_api.documents.engine_manifest import TOKENIZER_FOLDER
from mm_runtime.backends import steps
from mm_runtime.engine_build.build_paths import BuildPaths
from mm_runtime.engine_build.commands import byte_pairs
from mm_runtime.engine_build.commands.library_tokenizer import SAMPLES
from mm_runtime.engine_build.commands.make_tokenizer import make_tokenizer
from mm_runtime.engine_build.commands.step import StepContext
from mm_runtime.errors import PermanentError
from mm_runtime.serving.prompts.tokens import TextCodec
from support.cases import cases
from support.families.pipeline import plan_of
from support.model_configs import facts_of

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
"""BART's, in the order of their ids; without a name in any file, as facebook publishes them."""

TEXTS = (
    *SAMPLES,
    " leading",
    "trailing  ",
    "it's they'LL",
    "a\xa0b\u200bc",
    "aaaa aaaaa",
    "e\u0301",
)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with vocab.json and merges.txt, trained on the texts."""
    folder = tmp_path_factory.mktemp("bart")
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(
        TEXTS * 5, vocab_size=600, show_progress=False, special_tokens=list(SPECIAL)
    )
    trained.save_model(str(folder))
    return folder


def fetched(published: Path, folder: Path) -> StepContext:
    """Return a Reference build that has fetched those files and config.json."""
    facts = facts_of("bart").model_copy(update={"byte_pair_vocabulary": "vocab.json"})
    plan = plan_of(facts)
    paths = BuildPaths(folder, plan.fingerprint)
    own = paths.fetched("vocab.json")
    own.parent.mkdir(parents=True, exist_ok=True)
    for name in ("vocab.json", "merges.txt"):
        (own.parent / name).write_bytes((published / name).read_bytes())
    for path in (own.parent / "config.json", paths.fetched("config.json")):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"model_type": "bart"}')
    return StepContext(plan, "", paths)


def test_ids_are_those_of_the_merges(published: Path, tmp_path: Path) -> None:
    """In every script, between <s> and </s>, as the library that trained the merges splits them."""
    context = fetched(published, tmp_path)
    make_tokenizer(context)
    made = TextCodec(context.paths.unfinished / TOKENIZER_FOLDER)
    plain = ByteLevelBPETokenizer.from_file(
        str(published / "vocab.json"), str(published / "merges.txt")
    )
    expected = {text: [0, *plain.encode(text).ids, 2] for text in TEXTS}
    assert expected == {text: made.encode_prompt(text) for text in TEXTS}
    assert (made.end_id, made.pad_id) == (2, 1)
    assert made.decode(made.encode_prompt("Grüße, 3 €")) == "Grüße, 3 €"


def _cut(text: str) -> str:
    return text[: len(text) // 2]


def _without_a_merge(text: str) -> str:
    vocabulary = json.loads(text)
    longest = max(vocabulary.keys() - {*SPECIAL}, key=len)
    return json.dumps({token: at for token, at in vocabulary.items() if token != longest})


@cases(
    "change words",
    {
        "cut": (_cut, r"vocab\.json is not a vocabulary: .*Copy"),
        "another": (_without_a_merge, r"lacks 1 of the .* not of one checkpoint"),
    },
)
def test_what_does_not_belong_together_is_reported(
    published: Path, tmp_path: Path, change: Callable[[str], str], words: str
) -> None:
    context = fetched(published, tmp_path)
    path = context.paths.fetched("vocab.json")
    path.write_text(change(path.read_text()))
    with pytest.raises(PermanentError, match=words):
        make_tokenizer(context)


def test_another_conversion_is_refused(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version of transformers that split words otherwise would serve nonsense."""
    context = fetched(published, tmp_path)
    make = byte_pairs.made_by_transformers

    def otherwise(*files: Path) -> Any:
        made = make(*files)
        made.backend_tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
        return made

    monkeypatch.setattr(byte_pairs, "made_by_transformers", otherwise)
    with pytest.raises(PermanentError, match=r"vocab\.json that splits .* the algorithm of GPT-2"):
        make_tokenizer(context)
    assert not list(context.paths.tokenizer.iterdir())


def test_only_such_checkpoints_have_the_step() -> None:
    """A BART with tokenizer.json has none."""
    facts = facts_of("bart")
    bare = facts.model_copy(update={"byte_pair_vocabulary": "vocab.json"})
    names = [[step.name for step in steps(plan_of(one))] for one in (facts, bare)]
    ends = ["verify-weights", "evaluation"]
    assert names == [["fetch", *ends], ["fetch", "make-tokenizer", *ends]]
