"""PURE: `streaming_ensemble`: the real ensemble, for the gateway, where `ensemble` cannot stream.

See `bls_ensemble`.
"""

from mm_runtime.repository.configs import ensemble
from mm_runtime.repository.model_config import ModelConfig
from mm_runtime.repository.values import RepositoryValues

NAME = "streaming_ensemble"


def config(values: RepositoryValues) -> ModelConfig:
    """Return the ensemble's configuration under this name."""
    return ensemble.config(values, NAME)
