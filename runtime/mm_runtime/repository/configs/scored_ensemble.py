"""PURE: `scored_ensemble`: `token_ensemble` with log probabilities, for requests that want them.

Apart from it because Triton makes every output that an ensemble names, for each token of each
request, whatever its client wants.
"""

from mm_runtime.repository.configs import token_ensemble
from mm_runtime.repository.configs.tensorrt_llm import LIKELIEST
from mm_runtime.repository.model_config import DataType, ModelConfig, output
from mm_runtime.repository.values import RepositoryValues

NAME = "scored_ensemble"
LOG_PROBS = "output_log_probs"
LIKELIEST_IDS, LIKELIEST_LOG_PROBS = (one.name for one in LIKELIEST)
"""Outputs of the Reference engine: as many as requested for each new token, token after token."""


def config(values: RepositoryValues) -> ModelConfig:
    scores = (output(LOG_PROBS, DataType.FP32, -1, -1), *(LIKELIEST if values.own_tensors else ()))
    made = (*token_ensemble.TOKENS, *scores, *token_ensemble.reused(values))
    return token_ensemble.of(NAME, values, made)
