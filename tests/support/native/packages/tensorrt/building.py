"""The building half of the stand-in: parser and builder of TensorRT for RTX, which need no GPU.

They are NVIDIA's own and refuse what TensorRT refuses: mixed types, operators, profiles. What they
make needs a GPU, so an engine of the stand-in holds the graph instead.
"""

import base64
import json
from pathlib import Path
from typing import Any

import tensorrt_rtx_bindings as real
from tensorrt_rtx_bindings import BuilderFlag, NetworkDefinitionCreationFlag

from tensorrt import ILogger, __version__

LOG = real.Logger(real.Logger.ERROR)
PARSED: list[Path] = []


class OnnxParser(real.OnnxParser):  # type: ignore[misc]
    """Remembers what it read."""

    def __init__(self, network: Any, logger: ILogger) -> None:
        super().__init__(network, LOG)
        assert isinstance(logger, ILogger), "a logger is needed"

    def parse_from_file(self, model: str) -> bool:
        PARSED[:] = [Path(model)]
        return bool(super().parse_from_file(model))


class Builder(real.Builder):  # type: ignore[misc]
    """Builds engines of the stand-in, where the real one makes any."""

    def __init__(self, logger: ILogger) -> None:
        super().__init__(LOG)
        assert isinstance(logger, ILogger), "a logger is needed"
        self.profiles: list[Any] = []

    def create_optimization_profile(self) -> Any:
        self.profiles.append(super().create_optimization_profile())
        return self.profiles[-1]

    def build_serialized_network(self, network: Any, config: Any) -> bytes | None:
        assert network.get_flag(NetworkDefinitionCreationFlag.STRONGLY_TYPED), "types are a choice"
        assert not config.get_flag(BuilderFlag.TF32), "float32 would be rounded"
        if super().build_serialized_network(network, config) is None:
            return None
        output = network.get_output(0)
        built = {
            "tensorrt": __version__,
            "kind": "graph",
            "graph": base64.b64encode(PARSED[0].read_bytes()).decode(),
            "inputs": {},
            "output": {"dtype": output.dtype.name, "name": output.name},
        }
        for one in map(network.get_input, range(network.num_inputs)):
            profiles = [[*map(list, profile.get_shape(one.name))] for profile in self.profiles]
            built["inputs"][one.name] = {"dtype": one.dtype.name, "profiles": profiles}
        return json.dumps(built).encode()
