"""Triton's own schema of a model's configuration: `inference.ModelConfig` of tritonclient."""

from importlib import util
from typing import Any


def _generated() -> Any:
    # By its file: the package around it imports gRPC's client, 34 MB and 0.3 s, which the process
    # that owns the server would hold for as long as the pod lives.
    package = util.find_spec("tritonclient")
    assert package is not None  # noqa: S101  # pinned in pyproject.toml
    folder = (package.submodule_search_locations or [""])[0]
    spec = util.spec_from_file_location("model_config_pb2", f"{folder}/grpc/model_config_pb2.py")
    assert spec is not None  # noqa: S101  # the path ends in .py
    assert spec.loader is not None  # noqa: S101  # the same
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SCHEMA = _generated()
"""Its messages by name; unknown fields and values of another type are refused when one is made."""
