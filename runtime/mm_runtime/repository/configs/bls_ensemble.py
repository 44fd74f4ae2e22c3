"""PURE: `ensemble` where no model streams: its steps as one model, which may take ModelInfer.

Triton takes that call, and HTTP `infer`, only for models that answer once, and a real ensemble is
none of them while one of its steps may stream: the gateway's answers do, through `token_ensemble`.
"""

from mm_runtime.repository.configs import ensemble, tensorrt_llm_bls
from mm_runtime.repository.model_config import ModelConfig
from mm_runtime.repository.values import RepositoryValues

NAME = ensemble.NAME


def config(values: RepositoryValues) -> ModelConfig:
    """Return the model's configuration: processes and steps of `tensorrt_llm_bls`."""
    return tensorrt_llm_bls.pipeline_model(values, NAME, ensemble.inputs(values), ensemble.OUTPUTS)
