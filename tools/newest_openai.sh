#!/usr/bin/env bash
# Run the conformance tests with the newest `openai` package of the registry instead of the pinned one:
# tools/newest_openai.sh [tests ...]
# The package alone goes into a folder that stands before .venv; its dependencies are those of .venv.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/uv.sh

folder=.venv-openai
rm -rf "$folder"
"$UV" pip install --quiet --python .venv/bin/python --no-deps --target "$folder" 'openai>=3'
export PYTHONPATH=$PWD/$folder
.venv/bin/python -c 'import openai; print("openai", openai.__version__, openai.__file__)'
tests=("$@")
[ ${#tests[@]} -gt 0 ] || tests=(tests/openai tests/examples)
.venv/bin/pytest -n 2 --dist loadgroup -p no:cacheprovider -m 'not slow' "${tests[@]}"
