#!/usr/bin/env bash
# Write requirements/*.txt from pyproject.toml: every version and hash, no address of any registry.
# Keeps the versions already pinned; `tools/lock.sh --upgrade` takes the newest that fit.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/uv.sh

lock() { # name, Python, glibc, overrides, what is locked
  local name=$1 python=$2 glibc=$3 overrides=$4
  shift 4
  "$UV" pip compile --quiet pyproject.toml "$@" "${upgrade[@]}" \
    --python-version "$python" --python-platform "x86_64-manylinux_$glibc" \
    --overrides "requirements/$overrides.txt" --generate-hashes \
    --no-emit-index-url --no-annotate --no-header \
    --output-file "requirements/$name.txt" >/dev/null
  echo "requirements/$name.txt: $(grep -c == "requirements/$name.txt") packages"
}

upgrade=("$@")
debian=(3.11 2_36 overrides)
ubuntu=(3.12 2_39 overrides-gpu) # 24.04, of NVIDIA's images too
lock operator "${debian[@]}" --extra operator
lock runtime-cpu "${debian[@]}" --extra runtime-cpu
lock runtime-cuda "${ubuntu[@]}" --extra runtime-cpu
lock trtllm-supervisor "${ubuntu[@]}" --extra supervisor
lock trtllm-engine "${ubuntu[@]}" --extra engine
lock dev "${debian[@]}" --extra operator --extra mmctl --extra runtime-cpu --extra vision-tensorrt-rtx \
  --group test --group lint --group chart --group dev --group build --group dashboards --group gateway-api
lock release "${debian[@]}" --group release
# On any system, with any Python that mmctl runs on.
"$UV" pip compile --quiet pyproject.toml --extra mmctl "${upgrade[@]}" --universal --python-version 3.11 \
  --generate-hashes --no-emit-index-url --no-annotate --no-header --output-file requirements/mmctl.txt >/dev/null
lock docs "${debian[@]}" --group docs
tools/vllm.sh --lock

if grep -nE 'https?://|--(extra-)?index-url|--find-links' requirements/*.txt; then
  echo "requirements/ must not name the address of a registry: see the lines above" >&2
  exit 1
fi
