"""The model `tensorrt_llm_bls`: the steps of the ensemble, one after another, as one model.

Must not: know tensors beyond their names, or do a step by itself.
"""
