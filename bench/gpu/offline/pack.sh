#!/usr/bin/env bash
# pack.sh FOLDER: what a machine with a GPU and no network needs for bench/gpu, in parts to carry.
#
#   base-*      Python packages of our pins that go before that machine's own (numpy below 2, Triton),
#               Debian's packages of a node, the compiled programs of the cluster
#   tensorrt-*  TensorRT 10.6.0: its libraries and its Python module (NVIDIA's licence: to measure,
#               never to publish)
#
# Runs on Debian with root, network and `make programs` done; MM_PART_BYTES (38500000) is a part's size.
# There: setup.sh FOLDER, with the parts in one folder.
set -euo pipefail
root=$(readlink -f "$(dirname "$0")/../../..")
folder=$(readlink -m "$1")
part=${MM_PART_BYTES:-38500000}
cd "$root"
. tools/uv.sh # sets UV
mkdir -p "$folder/work/debs" "$folder/work/tensorrt/lib" "$folder/work/tensorrt/site"
cd "$folder/work"

# That machine has torch, transformers and what they stand on.
its_own='torch|torchvision|triton|nvidia-[a-oq-z].*|cuda-.*|transformers|tokenizers|huggingface-hub|accelerate|peft|timm'
its_own+='|onnx.*|ml-dtypes|sympy|networkx|mpmath|flatbuffers|safetensors|sentencepiece|regex|pillow|setuptools|rich'
its_own+='|pygments|typer|shellingham|fsspec|filelock|tqdm|tzdata|psutil|markdown-it-py|mdurl'
{
  grep -hoE '^[a-zA-Z0-9_.-]+==[^ ]+' "$root"/requirements/{runtime-cuda,operator}.txt
  grep -hoE '^(helm-python-sdk|zstandard|pytest|pytest-asyncio|pytest-timeout)==[^ ]+' "$root/requirements/dev.txt"
} | awk -F== '!seen[$1]++' | grep -vE "^($its_own)==" >pins.txt # the runtime's pin where two differ
for_it=(--no-deps --no-compile --only-binary :all: --python-version 3.12 --python-platform x86_64-manylinux_2_39)
"$UV" pip install -q "${for_it[@]}" --target pinned -r pins.txt
rm -rf pinned/pytriton/tritonserver/python_backend_stubs/3.{8,9,10,11,13} pinned/numpy/*/tests

(cd debs && apt-get download -qq containerd runc containernetworking-plugins iptables libxtables12 libnftnl11 \
  libip4tc2 libip6tc2 libmnl0 libnfnetlink0 libnetfilter-conntrack3 iproute2 libbpf1 libelf1 kmod libkmod2 \
  conntrack ebtables prometheus)
mapfile -t programs < <("$root/.venv/bin/mm-devcluster" build && "$root/.venv/bin/mm-devcluster" build nvidia-device-plugin)
go env GOVERSION >go-version
cache=${MM_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/multimodal-operator}
tar -cf - pinned debs go-version -C "$cache" "${programs[@]#"$cache/"}" | zstd -q -10 --long=27 -T0 | split -b "$part" -d - "$folder/base-"

# Maven has the libraries, the package index the module that binds them, under another name.
artifact=org.bytedeco:tensorrt:10.6-1.5.11:jar:linux-x86_64-redist
mvn -q dependency:get -Dtransitive=false -Dartifact=$artifact
unzip -q -j -o ~/.m2/repository/org/bytedeco/tensorrt/10.6-1.5.11/*-redist.jar \
  '*/libnvinfer.so.10' '*/libnvinfer_builder_resource.so.10.6.0' '*/libnvonnxparser.so.10' '*/libnvinfer_plugin.so.10' \
  -d tensorrt/lib
"$UV" pip install -q "${for_it[@]}" --target tensorrt/site tensorrt-cu12-bindings==10.6.0
mkdir -p tensorrt/site/tensorrt tensorrt/site/tensorrt-10.6.0.dist-info
printf 'from tensorrt_bindings import *\nfrom tensorrt_bindings import __version__\n' >tensorrt/site/tensorrt/__init__.py
printf 'Metadata-Version: 2.1\nName: tensorrt\nVersion: 10.6.0\n' >tensorrt/site/tensorrt-10.6.0.dist-info/METADATA
tar -C tensorrt -cf - lib site | zstd -q -8 --long=27 -T0 | split -b "$part" -d - "$folder/tensorrt-"
cp /usr/bin/zstd "$folder/"
cp "$(ldconfig -p | sed -n 's/.*libzstd\.so\.1 .*=> //p' | head -1)" "$folder/"
ls -l "$folder"
