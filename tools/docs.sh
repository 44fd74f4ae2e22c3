#!/usr/bin/env bash
# Build the documentation's site into site/, strictly: a page outside the navigation, a broken link or
# anchor fails. Its environment, .venv-docs, is made once; the build itself reads no network.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/uv.sh

environment=.venv-docs pins=requirements/docs.txt
[ -x "$environment/bin/python" ] || "$UV" venv --quiet --no-config --python /usr/bin/python3.11 "$environment"
"$UV" pip sync --quiet --python "$environment/bin/python" --require-hashes "$pins"
NO_MKDOCS_2_WARNING=1 PYTHONPATH=tools "$environment/bin/mkdocs" build --quiet --strict
echo "site/index.html"
