"""The runtime image with the recorded tools of TensorRT-LLM in it, loaded into a node."""

from dataclasses import replace
from pathlib import Path

from mm_devcluster.cluster import load_image
from mm_devcluster.images.catalogue import RUNTIME, VARIABLES, compose
from mm_devcluster.images.oci import tree_entries, write_layer
from mm_devcluster.images.sources import VENV
from support.installed import Installed
from support.trtllm_tools.install import Tools, install, write_program

ROOT = "/app/tensorrt_llm"
SLOWED = '#!/bin/sh\nsleep 6\nexec python3 {root}/bin/trtllm-build-at-once "$@"\n'
"""An engine takes long enough for someone to end the container in the middle."""


def make_image(installed: Installed, folder: Path, version: str = "0.20.0") -> tuple[Tools, str]:
    tools = install(folder / "root", version, python=f"{VENV}/bin/python3")
    program = tools.script("trtllm-build")
    program.rename(program.with_name("trtllm-build-at-once"))
    write_program(program, SLOWED.format(root=ROOT))
    layer = write_layer(tree_entries(tools.root, ROOT), folder / "tools.tar.zst")
    variables = {"PATH": f"{ROOT}/bin:{VARIABLES['PATH']}", "PYTHONPATH": f"{ROOT}/site-packages"}
    runtime = installed.session.images[RUNTIME.name]
    recipe = replace(RUNTIME, name="recorded-trtllm", variables=variables)
    image = compose(recipe, (*runtime.layers, layer))
    load_image(installed.cluster.name, image)
    return tools, image.reference
