#!/usr/bin/env bash
# setup.sh FOLDER: a machine with a GPU, Python 3.12 with torch and no network is set up for bench/gpu.
# FOLDER has the parts of pack.sh; those of TensorRT may come later: call it again, it does what is
# not done. Runs as root, in a checkout that stays where it is.
# Afterwards `python bench/gpu/cluster.py --images machine --pinned /opt/mm/pinned --tensorrt /opt/mm/tensorrt` works.
set -euo pipefail
parts=$(readlink -f "$1")
root=$(readlink -f "$(dirname "$0")/../../..")
to=/opt/mm
cache=${XDG_CACHE_HOME:-$HOME/.cache}/multimodal-operator
site=$(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
libraries=/usr/lib/x86_64-linux-gnu
mkdir -p "$to" "$cache"
unpacked() { cat "$parts/$1"-* | LD_LIBRARY_PATH=$parts "$parts/zstd" -d -q --long=27; }

if [ -e "$parts/tensorrt-00" ] && [ ! -e "$to/tensorrt" ]; then
  mkdir -p "$to/tensorrt.part"
  unpacked tensorrt | tar -C "$to/tensorrt.part" -xf -
  mv -T "$to/tensorrt.part" "$to/tensorrt"
  echo "$to/tensorrt/lib" >/etc/ld.so.conf.d/mm-tensorrt.conf
  # ldconfig lists it by a name that nobody opens.
  ln -sf "$to"/tensorrt/lib/libnvinfer_builder_resource.so.* "$libraries/"
  ldconfig
  echo "$to/tensorrt/site" >"$site/mm-tensorrt.pth"
  python3 -c 'import tensorrt; print("TensorRT", tensorrt.__version__)'
fi
[ ! -e "$to/pinned" ] || exit 0

unpacked base | tar -C "$to" -xf -
mv -T "$to/binaries" "$cache/binaries"

# Programs and libraries of Debian's packages, where this system has none: never over its own.
for deb in "$to"/debs/*.deb; do dpkg-deb --fsys-tarfile "$deb" | tar -C "$to/debs" -xf -; done
for folder in usr/bin usr/sbin bin sbin; do
  for program in "$to/debs/$folder"/*; do
    [ ! -e "$program" ] || command -v "$(basename "$program")" >/dev/null || cp -a "$program" "/usr/${folder#usr/}/"
  done
done
mkdir -p /usr/lib/cni && cp -a "$to/debs/usr/lib/cni/." /usr/lib/cni/
cp -a "$to/debs$libraries/xtables" "$libraries/"
for library in "$to/debs$libraries"/*.so* "$to/debs/lib/x86_64-linux-gnu"/*.so*; do
  [ ! -e "$library" ] || ldconfig -p | grep -q "^[[:space:]]*$(basename "$library") " || cp -an "$library" "$libraries/"
done
ldconfig
# The key of compiled programs asks for Go's version, and nothing is compiled here.
printf '#!/bin/sh\necho %s\n' "$(cat "$to/go-version")" >/usr/local/bin/go
chmod +x /usr/local/bin/go

# One interpreter for all: our pins and sources before its own packages, in every process of it, since
# the cluster's supervisor starts with an empty environment.
places="'$to/pinned'"
for package in crds edge operator router runtime mmctl observability devcluster lab tests; do places+=", '$root/$package'"; done
echo "import sys; sys.path[:0] = [one for one in ($places) if one not in sys.path]" >"$site/000-mm.pth"
mkdir -p "$site/multimodal_operator-1.dist-info" "$to/aside"
printf 'Metadata-Version: 2.4\nName: multimodal-operator\nVersion: 1\n' >"$site/multimodal_operator-1.dist-info/METADATA"
# Built for numpy 2, and transformers loads them where they are: they would end every process.
mv "$site"/scipy* "$site"/sklearn* "$site"/scikit_learn* "$to/aside/" 2>/dev/null || true
programs=$(dirname "$(python3 -c 'import sys; print(sys.executable)')")
for row in mmctl:mm_ctl.cli mm-lab:mm_lab.cli mm-runtime:mm_runtime.cli mm-operator:mm_operator.__main__ mm-devcluster:mm_devcluster.cli; do
  printf '#!%s/python3\nimport sys\n\nfrom %s import main\n\nsys.exit(main())\n' "$programs" "${row#*:}" >"$programs/${row%%:*}"
  chmod +x "$programs/${row%%:*}"
done
# Triton's stub is linked to the interpreter's library by this name.
library=libpython3.12.so.1.0
where=$(python3 -c 'import sysconfig; print(sysconfig.get_config_var("LIBDIR"))')
if [ ! -e "$where/$library" ]; then
  ln -s "$(find / -xdev -name $library 2>/dev/null | head -1)" "$where/$library"
fi
chmod +x "$to"/pinned/pytriton/tritonserver/bin/tritonserver "$to"/pinned/pytriton/tritonserver/python_backend_stubs/*/*
python3 -c 'import mm_runtime, mm_operator, mm_devcluster, numpy, torch; print(numpy.__version__, torch.__version__)'
