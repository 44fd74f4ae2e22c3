#!/usr/bin/env bash
# Run the tests of what goes into images with another Python: tools/other_python.sh 3.12 [tests ...]
# The same pins in an environment beside .venv. Exit code 77: there is no such Python, nothing ran.
# Without tests named: those that start no server, and one server with a process of every model.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/uv.sh

version=$1
shift
python=
# pyenv's own first: its shim on PATH runs only the versions that pyenv has activated.
for candidate in "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python "python$version"; do
  if "$candidate" --version >/dev/null 2>&1; then python=$(command -v "$candidate"); fi
  [ -z "$python" ] || break
done
if [ -z "$python" ]; then
  echo "no Python $version on this machine: nothing was run" >&2
  exit 77
fi
environment=.venv-$version
[ -x "$environment/bin/python" ] || "$UV" venv --quiet --no-config --python "$python" "$environment"
"$UV" pip install --quiet --python "$environment/bin/python" --require-hashes --no-deps \
  --requirement requirements/dev.txt
"$UV" pip install --quiet --python "$environment/bin/python" --offline --no-deps \
  --no-build-isolation --editable .

# run PROCESSES MARKS TESTS...
run() {
  local marks='not slow and not adversarial and not gpu and not twin and not cluster and not e2e and not s3'
  PATH="$PWD/$environment/bin:$PATH" "$environment/bin/pytest" -n "$1" --dist loadgroup \
    -p no:cacheprovider -m "$marks$2" "${@:3}"
}
if [ $# -gt 0 ]; then
  run 2 '' "$@"
  exit
fi
# Examples that Hypothesis makes say nothing of a Python that 3.11 does not: half a minute.
run 2 ' and not triton' tests/mm_runtime/{doctor,inspect,launch,repository,store} \
  --ignore=tests/mm_runtime/inspect/test_any_bytes_give_an_answer.py
# Streams whose clients name outputs have crashed with 3.12 alone. A second process would only import.
run 0 '' tests/mm_runtime/serving/test_ensemble_answers.py
