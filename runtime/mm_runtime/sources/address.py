"""PURE: where a checkpoint lies, from the text of `--source`."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from mm_runtime.errors import PermanentError

HUB = "hf://"
BUCKET = "s3://"
ARCHIVE = "https://"

_REPOSITORY = re.compile(r"[-._a-zA-Z0-9]+(/[-._a-zA-Z0-9]+)?")
_ARCHIVE = re.compile(r"(https://[^\s?#@]+\.tar\.(?:bz2|gz))#sha256=([0-9a-f]{64})")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class HubAddress:
    """A revision of a repository on the Hugging Face Hub."""

    repository: str
    revision: str

    @property
    def pinned(self) -> bool:
        """Whether the revision is a commit, whose files cannot change."""
        return _COMMIT.fullmatch(self.revision) is not None

    def __str__(self) -> str:
        return f"{HUB}{self.repository}@{self.revision}"


@dataclass(frozen=True, slots=True)
class BucketAddress:
    """Objects of a bucket below a prefix, which has no slash at either end."""

    bucket: str
    prefix: str

    def key(self, name: str) -> str:
        return f"{self.prefix}/{name}" if self.prefix else name

    def __str__(self) -> str:
        return f"{BUCKET}{self.bucket}/{self.prefix}".rstrip("/")


@dataclass(frozen=True, slots=True)
class ArchiveAddress:
    """An archive behind a URL, and its digest in hex digits."""

    url: str
    sha256: str

    def __str__(self) -> str:
        return self.url


Address: TypeAlias = Path | HubAddress | BucketAddress | ArchiveAddress


def parse_address(text: str) -> Address:
    """Return the address that a text names.

    It is a path, `hf://REPO@REVISION`, `s3://BUCKET/PREFIX` or `https://ARCHIVE#sha256=DIGEST`.

    Raises:
        PermanentError: it begins like one of them and is none.
    """
    if text.startswith(HUB):
        repository, _, revision = text.removeprefix(HUB).partition("@")
        if _REPOSITORY.fullmatch(repository) is None:
            raise PermanentError(
                f"{text!r} names no repository; expected hf://OWNER/NAME@REVISION, for example"
                " hf://llava-hf/llava-1.5-7b-hf@main."
            )
        return HubAddress(repository, revision or "main")
    if text.startswith(BUCKET):
        return parse_bucket(text)
    if archive := _ARCHIVE.fullmatch(text):
        return ArchiveAddress(*archive.groups())
    if text.startswith(ARCHIVE):
        raise PermanentError(
            f"{text!r} names no archive; expected https://HOST/NAME.tar.bz2#sha256=DIGEST, or"
            " .tar.gz, without credentials and query. A repository of the Hub is hf://OWNER/NAME."
        )
    if "://" in text:
        raise PermanentError(
            f"{text!r} has an unknown scheme; expected a directory, hf://OWNER/NAME@REVISION,"
            " s3://BUCKET/PREFIX or https://ARCHIVE#sha256=DIGEST."
        )
    return Path(text)


def parse_bucket(text: str) -> BucketAddress:
    """Return the address of `s3://BUCKET/PREFIX`; PermanentError: it names no bucket."""
    bucket, _, prefix = text.removeprefix(BUCKET).partition("/")
    if not bucket:
        raise PermanentError(f"{text!r} names no bucket; expected s3://BUCKET/PREFIX.")
    return BucketAddress(bucket, prefix.strip("/"))
