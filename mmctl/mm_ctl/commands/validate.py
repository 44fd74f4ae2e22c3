"""`mmctl validate -f FILE`: what the API server would say, without a request to it.

And what the operator would report: images of two versions of TensorRT-LLM, or of an unknown one of
vLLM.
"""

import argparse
import sys
from collections.abc import Iterator
from itertools import chain
from typing import Any

from mm_api.v1alpha1 import MultimodalModelSpec
from mm_api.v1alpha1.validation import validate, without_nulls
from mm_ctl.documents import name_of, read_models
from mm_operator.errors import SpecError
from mm_operator.plan.engine.backends.vllm import vllm_version
from mm_operator.plan.engine.tables import check_images

VALID, INVALID = 0, 2


def configure(parser: argparse.ArgumentParser) -> None:
    words = "YAML file; - is standard input; may be repeated"
    parser.add_argument("-f", "--filename", required=True, action="append", help=words)


def run(options: argparse.Namespace) -> int:
    """Print one line per problem, or one per valid resource."""
    code = VALID
    for document in chain.from_iterable(map(read_models, options.filename)):
        problems = list(map(str, validate(document))) or list(_of_operator(document))
        for problem in problems:
            print(f"{name_of(document)}: {problem}", file=sys.stderr)
            code = INVALID
        if not problems:
            print(f"{name_of(document)}: valid")
    return code


def _of_operator(document: dict[str, Any]) -> Iterator[str]:
    spec = MultimodalModelSpec.model_validate(without_nulls(document["spec"]))
    try:
        if spec.engine.traits.uses_trtllm:
            check_images(spec.build.image, spec.runtime.image)
        elif not spec.engine.traits.supervised:
            vllm_version(spec.runtime.image, spec.runtime.vllm_version)
    except SpecError as error:
        yield str(error)
