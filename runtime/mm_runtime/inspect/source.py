"""Inspecting a source by its address: a directory, the Hub, a bucket, an archive."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from mm_api.documents.model_facts import InspectReason, ModelFacts
from mm_runtime.errors import InspectRefusedError
from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from mm_runtime.inspect.refusals import with_reasons
from mm_runtime.sources.address import parse_address
from mm_runtime.sources.checkout import checked_out


def inspect_source(
    text: str,
    options: InspectOptions,
    environment: Mapping[str, str] | None = None,
    compare: Callable[[ModelFacts, Path], str | None] = lambda *_: None,
) -> ModelFacts:
    """Return the facts of the checkpoint at an address.

    `compare` compares configurations and headers with the checkpoint's class; it returns why it
    could not.

    Raises:
        InspectRefusedError: it cannot be served; the message says why and what to do.
        InspectInterruptedError: its server does not answer now.
        OSError: the disk failed; worth another try.
    """
    with (
        with_reasons(InspectReason.SOURCE_NOT_FOUND),
        checked_out(
            parse_address(text), environment, allow_pickle=options.allow_pickle
        ) as checkout,
    ):
        try:
            facts = inspect(checkout.directory, options)
            why = compare(facts, checkout.directory)
        except InspectRefusedError as refused:
            raise replace(refused, message=checkout.explain(refused.message)) from refused
        return facts.model_copy(update={"source_revision": checkout.commit, "uncompared": why})
