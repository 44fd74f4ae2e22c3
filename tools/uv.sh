# Sourced: sets UV to the pinned uv, installing it first when it is missing.
# Needs any python3 with pip, or root to install one; checks the hash in requirements/uv.txt.

uv_cache="${MM_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/multimodal-operator}/uv"

fail() {
  printf 'set-up failed: %s\n' "$1" >&2
  exit 1
}

# A Python with pip, whatever its version: it only unpacks one wheel. Debian's own may lack pip,
# and `ensurepip` is then missing too, so the last way is the Debian package.
python_with_pip() {
  local candidate
  for candidate in python3 /usr/bin/python3 /usr/bin/python3.11; do
    if command -v "$candidate" >/dev/null && "$candidate" -m pip --version >/dev/null 2>&1; then
      echo "$candidate"
      return
    fi
  done
  [ "$(id -u)" = 0 ] || fail "no python3 here has pip, and only root may install it: apt-get install python3-pip"
  DEBIAN_FRONTEND=noninteractive apt-get update -qq >&2 \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-pip >/dev/null \
    || fail "apt-get could not install python3-pip (its message is above)"
  echo /usr/bin/python3
}

install_uv() {
  local version=$1 python
  python=$(python_with_pip) || exit 1
  echo "installing uv $version"
  rm -rf "$uv_cache/$version.new"
  PIP_ROOT_USER_ACTION=ignore "$python" -m pip install --quiet --no-deps --require-hashes --only-binary :all: \
    --requirement requirements/uv.txt --target "$uv_cache/$version.new" \
    || fail "pip could not install uv $version (requirements/uv.txt); is the package registry reachable?"
  # Renamed last, so that an interrupted run leaves nothing that looks finished.
  mv -T "$uv_cache/$version.new" "$uv_cache/$version"
}

uv_version=$(sed -nE 's/^uv==([0-9.]+).*/\1/p' requirements/uv.txt)
UV="$uv_cache/$uv_version/bin/uv"
[ -x "$UV" ] || install_uv "$uv_version"
