#!/usr/bin/env bash
# Write requirements/*.txt from pyproject.toml: every version and hash, no address of any registry.
# Keeps the versions already pinned; `tools/lock.sh --upgrade` takes the newest that fit.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/uv.sh

lock() {
  local name=$1
  shift
  # The Debian 12 of our images: glibc 2.36 and Python 3.11.
  "$UV" pip compile --quiet pyproject.toml "$@" "${upgrade[@]}" \
    --python-version 3.11 --python-platform x86_64-manylinux_2_36 \
    --overrides requirements/overrides.txt --generate-hashes \
    --no-emit-index-url --no-annotate --no-header \
    --output-file "requirements/$name.txt" >/dev/null
  echo "requirements/$name.txt: $(grep -c == "requirements/$name.txt") packages"
}

upgrade=("$@")
lock operator --extra operator
lock runtime --extra runtime
lock runtime-cpu --extra runtime-cpu
lock dev --extra mmctl --extra runtime-cpu --extra vision-tensorrt-rtx --extra quantize \
  --group test --group lint --group chart --group dev --group build --group dashboards

if grep -nE 'https?://|--(extra-)?index-url|--find-links' requirements/*.txt; then
  echo "requirements/ must not name the address of a registry: see the lines above" >&2
  exit 1
fi
