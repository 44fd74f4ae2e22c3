"""PURE: `prompt_ensemble`: `scored_ensemble` with the scores of the prompt, where they are wanted.

Apart from it for the same reason: its outputs are made of each token's response, and hold
something in the first one alone.
"""

from mm_runtime.repository.configs import scored_ensemble, token_ensemble
from mm_runtime.repository.configs.gateway_inputs import SCORE_PROMPT
from mm_runtime.repository.configs.tensorrt_llm import PROMPT_SCORES
from mm_runtime.repository.model_config import DataType, ModelConfig, optional
from mm_runtime.repository.values import RepositoryValues

NAME = "prompt_ensemble"
IDS, LOG_PROBS, RANKS, LIKELIEST_IDS, LIKELIEST_LOG_PROBS = (one.name for one in PROMPT_SCORES)


def config(values: RepositoryValues) -> ModelConfig:
    """Return the ensemble's configuration."""
    outputs = (*scored_ensemble.outputs(values), *PROMPT_SCORES)
    wanted = optional(SCORE_PROMPT, DataType.INT32, 1)
    return token_ensemble.of(NAME, values, outputs, (wanted,))
