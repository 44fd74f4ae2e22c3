"""PURE: one module for each model of the repository: its tensors and how it is scheduled.

Beside them: what several share (`scheduling`), and the parameters of TensorRT-LLM's own backend
(`native_parameters`). Names, types and shapes are those of tensorrtllm_backend's templates
(v0.19.0), so that existing clients work unchanged; where newer templates renamed an input, both
names are there. May import: each other, `repository.model_config` and `repository.values`.
"""
