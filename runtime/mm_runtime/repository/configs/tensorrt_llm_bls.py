"""PURE: `tensorrt_llm_bls`: the ensemble's steps as one model, with upstream's further tensors."""

import json
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from mm_runtime.repository.configs import ensemble, multimodal_encoders, tensorrt_llm
from mm_runtime.repository.model_config import (
    DataType,
    EnsembleStep,
    Input,
    ModelConfig,
    Output,
    dynamic_batching,
    optional,
    python_model,
    scalar,
    strings,
    tensor,
)
from mm_runtime.repository.values import RepositoryValues
from mm_runtime.serving.tensor_names import HOST_FEATURES

NAME = "tensorrt_llm_bls"
_NOTHING: Mapping[str, Any] = MappingProxyType({})


def _inputs(table_type: DataType) -> tuple[Input, ...]:
    return (
        tensor("text_input", DataType.STRING, 1),
        optional("decoder_text_input", DataType.STRING, 1),
        optional("image_input", DataType.FP16, -1, 3, -1, -1),
        *ensemble.MEDIA,
        tensor("max_tokens", DataType.INT32, 1),
        optional("bad_words", DataType.STRING, -1),
        optional("stop_words", DataType.STRING, -1),
        optional("exclude_input_in_output", DataType.BOOL, 1),
        *ensemble.SAMPLING,
        scalar("return_log_probs", DataType.BOOL),
        scalar("return_context_logits", DataType.BOOL),
        scalar("return_generation_logits", DataType.BOOL),
        scalar("num_return_sequences", DataType.INT32),
        optional("beam_width", DataType.INT32, 1),
        optional("stream", DataType.BOOL, 1),
        optional("prompt_embedding_table", table_type, -1, -1),
        optional("prompt_vocab_size", DataType.INT32, 1),
        optional("prompt_table_extra_id", DataType.UINT64, 1),
        optional("cache_salt", DataType.STRING, 1),
        *ensemble.BIAS,
        optional("num_draft_tokens", DataType.INT32, 1),
        scalar("use_draft_logits", DataType.BOOL),
        scalar("lora_task_id", DataType.UINT64),
        optional("lora_weights", DataType.FP16, -1, -1, ragged=True),
        optional("lora_config", DataType.INT32, -1, 3, ragged=True),
        scalar("return_perf_metrics", DataType.BOOL),
        optional("guided_decoding_guide_type", DataType.STRING, 1),
        optional("guided_decoding_guide", DataType.STRING, 1),
    )


FURTHER_INPUTS = (
    *("exclude_input_in_output", "num_return_sequences", "lora_weights", "lora_config"),
    *("return_perf_metrics", "guided_decoding_guide_type", "guided_decoding_guide"),
)
"""What the language model takes under the same name and the ensemble has no input for."""

OUTPUTS = (*ensemble.OUTPUTS, *tensorrt_llm.MEASURED)


def steps(values: RepositoryValues) -> tuple[EnsembleStep, ...]:
    """Return the ensemble's steps, the language model's with its further tensors.

    The last step gets all its inputs whatever the language model's backend gives out: the chain
    itself knows which tokens came before, and which are the last.
    """
    *before, last = (_in_host_memory(step, values) for step in ensemble.steps(values))
    ensemble_step = ensemble.STEPS[-1]
    return (
        *(
            replace(
                step,
                input_map={**step.input_map, **{name: name for name in FURTHER_INPUTS}},
                output_map={
                    **step.output_map,
                    **{one.name: one.name for one in tensorrt_llm.MEASURED},
                },
            )
            if step.model_name == tensorrt_llm.NAME
            else step
            for step in before
        ),
        replace(last, input_map=ensemble_step.input_map),
    )


def _in_host_memory(step: EnsembleStep, values: RepositoryValues) -> EnsembleStep:
    """Return a step as this model runs it: it gets features, and passes them, in host memory.

    GPU tensors for a caller that wants host memory crash the stub that sends them (Triton 2.51).
    """
    gone = ensemble.HANDED_OVER
    inputs = {name: one for name, one in step.input_map.items() if one != gone}
    outputs = {name: one for name, one in step.output_map.items() if one != gone}
    if values.gpu_features and step.model_name == multimodal_encoders.NAME:
        inputs[HOST_FEATURES] = HOST_FEATURES
    return replace(step, input_map=inputs, output_map=outputs)


def config(values: RepositoryValues) -> ModelConfig:
    """Return the model's configuration: one request an instance, as many instances as run at once.

    Batches are of one: no instance takes a second request while another one is free. The queue has
    no bound, see `scheduling.batching`.
    """
    inputs = ensemble.known(values, _inputs(values.prompt_type))
    return pipeline_model(values, NAME, inputs, OUTPUTS)


def pipeline_model(
    values: RepositoryValues,
    name: str,
    inputs: tuple[Input, ...],
    outputs: tuple[Output, ...],
    *,
    names: Mapping[str, str] = _NOTHING,
    defaults: Mapping[str, int | bool] = _NOTHING,
    **parameters: str | bool,
) -> ModelConfig:
    """Return the configuration of a model that runs the steps, with this one's queue.

    `names`: tensor of its clients -> tensor of the steps, where they differ. `defaults`: tensor of
    the steps -> what it is where a request has none. `parameters`: override those of every model.
    """
    own: dict[str, str | bool] = {
        "tensorrt_llm_model_name": tensorrt_llm.NAME,
        "steps": json.dumps(
            [(one.model_name, one.input_map, one.output_map) for one in steps(values)]
        ),
        **({"names": json.dumps(names)} if names else {}),
        **({"defaults": json.dumps(defaults)} if defaults else {}),
        **parameters,
    }
    return python_model(
        name,
        max_batch_size=1,
        inputs=inputs,
        outputs=outputs,
        decoupled=values.serving.streaming,
        batching=dynamic_batching(1),
        processes=values.serving.bls_instances,
        parameters=values.shared_parameters() | strings(**own),
    )
