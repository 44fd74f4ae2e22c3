"""Triton's own schema of a model's configuration: `inference.ModelConfig` of tritonclient."""

import ast
from importlib import util
from pathlib import Path
from types import SimpleNamespace

from google.protobuf import descriptor_pool, message_factory  # type: ignore[import-untyped]


def _messages() -> SimpleNamespace:
    # Read out of its file. The package around it imports gRPC's client, 34 MB and 0.3 s, which the
    # process that owns the server would hold for as long as the pod lives; the module itself
    # refuses a protobuf older than its own, which images with TensorRT-LLM up to 1.0 hold.
    package = util.find_spec("tritonclient")
    assert package is not None  # noqa: S101  # pinned in pyproject.toml
    folder = (package.submodule_search_locations or [""])[0]
    tree = ast.parse(Path(folder, "grpc", "model_config_pb2.py").read_text(encoding="utf-8"))
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    (written,) = (one for one in calls if ast.unparse(one.func).endswith(".AddSerializedFile"))
    file = descriptor_pool.Default().AddSerializedFile(ast.literal_eval(written.args[0]))
    kinds = file.message_types_by_name.items()
    return SimpleNamespace(**{name: message_factory.GetMessageClass(kind) for name, kind in kinds})


SCHEMA = _messages()
"""Its messages by name; unknown fields and values of another type are refused when one is made."""
