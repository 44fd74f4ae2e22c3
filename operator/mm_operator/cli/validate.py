"""`mmctl validate -f FILE`: what the API server would say, without asking it."""

import argparse
import sys

from mm_api.v1alpha1.validation import validate
from mm_operator.cli.documents import name_of, read_models

HELP = "check resources in a file without a cluster: schema, rules, unsupported fields"
VALID, INVALID = 0, 2


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("-f", "--filename", required=True, help="YAML file; - is standard input")


def run(options: argparse.Namespace) -> int:
    """Print one line per problem, or one per valid resource."""
    code = VALID
    for document in read_models(options.filename):
        problems = validate(document)
        for problem in problems:
            print(f"{name_of(document)}: {problem}", file=sys.stderr)
            code = INVALID
        if not problems:
            print(f"{name_of(document)}: valid")
    return code
