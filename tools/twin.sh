#!/usr/bin/env bash
# A twin of NVIDIA's image of one TensorRT-LLM version: tools/twin.sh 1.2.1 [--lock]
#
# .venv-twin-VERSION/engine      the image's own interpreter: what upstream's list names
# .venv-twin-VERSION/packages    what runtime/Dockerfile.trtllm adds behind it
# .venv-twin-VERSION/lib         our code, as that image holds it
# .venv-twin-VERSION/supervisor  the environment of mm-runtime beside it
#
# tools/twins/VERSION.in is upstream's list; of it, only what our code may import is installed:
# an image with more would hide nothing that this one shows. `--lock` writes tools/twins/VERSION.txt
# again. Exit code 77: no such Python is on this machine, nothing was made.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/uv.sh

# Packages that our code imports where an image has them, and what they themselves need.
installed='accelerate|einops|llguidance|numpy|nvidia-modelopt|onnx|peft|pillow|psutil|pydantic|sentencepiece|setuptools|torch|torchvision|transformers|triton'
# The day by which a release's open requirements are resolved: packages as its image found them.
declare -A released=([0.17]=2025-02-07 [1.2.1]=2026-04-01 [1.0]=2025-09-01 [0.21]=2025-08-25)

version=$1
names=tools/twins/$version.in pins=tools/twins/$version.txt
[ -f "$names" ] || { echo "no $names; known: $(cd tools/twins && ls -- *.in | tr '\n' ' ')" >&2; exit 1; }
if [ "${2:-}" = --lock ]; then
  grep -E "^($installed)([^a-z-]|\$)" "$names" | "$UV" pip compile --quiet - \
    --exclude-newer "${released[$version]}" --python-version 3.12 \
    --python-platform x86_64-manylinux_2_39 --generate-hashes --no-emit-index-url --no-annotate \
    --no-header --overrides tools/twins/overrides.txt --output-file "$pins" >/dev/null
  exit
fi
python=
for candidate in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.12.*/bin/python python3.12; do
  if "$candidate" --version >/dev/null 2>&1; then python=$(command -v "$candidate"); break; fi
done
if [ -z "$python" ]; then
  echo "no Python 3.12 on this machine: no twin was made" >&2
  exit 77
fi
twin=.venv-twin-$version
mkdir -p "$twin/lib"
for environment in engine supervisor; do
  [ -x "$twin/$environment/bin/python" ] \
    || "$UV" venv --quiet --no-config --python "$python" "$twin/$environment"
done
# sync: a package that the list no longer names goes.
"$UV" pip sync --quiet --python "$twin/engine/bin/python" --require-hashes "$pins"
"$UV" pip sync --quiet --python "$twin/supervisor/bin/python" --require-hashes \
  requirements/trtllm-supervisor.txt
"$UV" pip install --quiet --python "$twin/engine/bin/python" --target "$twin/packages" \
  --require-hashes --no-deps --requirement requirements/trtllm-engine.txt
for package in crds/mm_api edge/mm_edge runtime/mm_runtime; do
  ln -sfn "$PWD/$package" "$twin/lib/${package##*/}"
done
for environment in engine supervisor; do
  site=$("$twin/$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  printf '%s\n' "$PWD/$twin/lib" >"$site/multimodal-operator.pth"
done
site=$("$twin/engine/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
printf '%s\n' "$PWD/$twin/lib" "$PWD/$twin/packages" >"$site/multimodal-operator.pth"
echo "$twin: $("$UV" pip list --quiet --python "$twin/engine/bin/python" 2>/dev/null | tail -n +3 | wc -l) packages of upstream's list"
