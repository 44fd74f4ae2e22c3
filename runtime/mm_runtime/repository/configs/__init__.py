"""PURE: one module for each model of the repository: its tensors and how it is scheduled.

Names, types and shapes are those of tensorrtllm_backend's templates (v0.19.0), so that existing
clients work unchanged; where newer templates renamed an input, both names are there. May import:
`repository.records` and `repository.values`.
"""
