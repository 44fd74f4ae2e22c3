"""A checkpoint quantized for trtllm-serve: `python3 -m mm_runtime.quantization`.

Belongs here: NVIDIA's Model-Optimizer, called as its own hf_ptq.py calls it, and what is calibrated
with. Must not: plan, know a store or a journal (it is a command of the plan that a person can type
too). May import: `mm_api.documents`, `mm_runtime.errors`, `mm_runtime.base.durable`. Only
`model_optimizer` and `tensors` know torch: a wrong argument is reported before that is imported.
"""
