"""`--source` names a directory, a revision on the Hub or a prefix in a bucket."""

import subprocess
import sys
from pathlib import Path

import pytest

from mm_runtime.errors import PermanentError
from mm_runtime.sources.address import BucketAddress, HubAddress, parse_address
from support.cases import cases

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@cases(
    "text expected",
    {
        "directory": ("/mnt/source/llava", Path("/mnt/source/llava")),
        "tag": ("hf://a/b@v1.0", HubAddress("a/b", "v1.0")),
        "no-revision": ("hf://a/b", HubAddress("a/b", "main")),
        "pull-request": ("hf://a/b@refs/pr/1", HubAddress("a/b", "refs/pr/1")),
        "prefix": ("s3://models/x/y/", BucketAddress("models", "x/y")),
        "entire-bucket": ("s3://models", BucketAddress("models", "")),
    },
)
def test_address_is_parsed(text: str, expected: object) -> None:
    assert expected == parse_address(text)


@cases(
    "text words",
    {
        "three-parts": ("hf://a/b/c@main", "names no repository"),
        "no-repository": ("hf://@main", "names no repository"),
        "no-bucket": ("s3:///prefix", "names no bucket"),
        "other-scheme": ("gs://bucket/x", "unknown scheme"),
    },
)
def test_damaged_address_is_refused(text: str, words: str) -> None:
    with pytest.raises(PermanentError, match=words):
        parse_address(text)


def test_only_a_commit_is_pinned() -> None:
    """A branch moves, a tag may; forty hex digits do not."""
    assert tuple(HubAddress("a/b", rev).pinned for rev in (COMMIT, "main")) == (True, False)


@pytest.mark.parametrize(
    "module", ["mm_runtime.engine_build.commands.fetch", "mm_runtime.inspect.source"]
)
def test_a_claim_waits_for_no_client(module: str) -> None:
    """The Hub's client takes half a second to import, the one of buckets a tenth."""
    program = f"import sys, {module}; print({{'huggingface_hub', 'obstore'}} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stdout == "set()\n"
