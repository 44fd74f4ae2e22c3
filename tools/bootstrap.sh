#!/usr/bin/env bash
# Make .venv from Debian's Python 3.11 with the pinned environment and this project in it.
# A second run does nothing: .venv/.stamp is the digest of everything the environment is made from.
set -euo pipefail
cd "$(dirname "$0")/.."

# Triton's python backend stub embeds libpython3.11 of Debian, so this very interpreter is needed;
# another 3.11 (pyenv's) has other symbols and breaks `import ssl` inside the server.
PYTHON=/usr/bin/python3.11
DEBIAN_PACKAGES=(python3.11 libpython3.11)

fail() {
  printf 'set-up failed: %s\n' "$1" >&2
  exit 1
}

digest() {
  { cat requirements/dev.txt requirements/uv.txt pyproject.toml tools/bootstrap.sh tools/uv.sh
    "$PYTHON" --version; } | sha256sum | cut -d' ' -f1
}

[ "$(uname -sm)" = "Linux x86_64" ] || fail "the pinned environment is for Linux on x86_64, this is $(uname -sm)"

missing=()
for package in "${DEBIAN_PACKAGES[@]}"; do
  dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^ii' || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  command -v apt-get >/dev/null || fail "this is not Debian: install Python 3.11 as $PYTHON with its shared library, then run this again"
  [ "$(id -u)" = 0 ] || fail "as root: apt-get install ${missing[*]}"
  echo "installing Debian packages: ${missing[*]}"
  DEBIAN_FRONTEND=noninteractive apt-get update -qq || fail "apt-get update (its message is above)"
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null \
    || fail "apt-get install ${missing[*]} (its message is above)"
fi
[ -x "$PYTHON" ] || fail "$PYTHON is missing although its package is installed"

wanted=$(digest)
if [ "$(cat .venv/.stamp 2>/dev/null)" = "$wanted" ]; then
  exit 0
fi

source tools/uv.sh
started=$SECONDS
echo "installing the environment into .venv (4.7 GB; about a minute, or 20 s when uv has it cached)"
rm -f .venv/.stamp
if [ ! -x .venv/bin/python ] || [ "$(readlink -f .venv/bin/python)" != "$(readlink -f $PYTHON)" ]; then
  rm -rf .venv
  "$UV" venv --quiet --no-config --python "$PYTHON" .venv || fail "uv could not make .venv from $PYTHON"
fi
"$UV" pip install --quiet --python .venv/bin/python --require-hashes --no-deps -r requirements/dev.txt \
  || fail "installing requirements/dev.txt (uv's message is above)"
# Offline and without isolation: the build backend is pinned in requirements/dev.txt.
"$UV" pip install --quiet --python .venv/bin/python --offline --no-deps --no-build-isolation --editable . \
  || fail "installing the project itself (uv's message is above)"
.venv/bin/python -c 'import mm_api, mm_ctl, mm_devcluster, mm_edge, mm_lab, mm_observability, mm_operator, mm_router, mm_runtime' \
  || fail "the installed project cannot be imported"
echo "$wanted" > .venv/.stamp
echo "environment ready after $((SECONDS - started)) s"
