"""An image with TensorRT-LLM's Triton backend and TensorRT, neither of which can be had.

Both are stand-ins over the Reference engine and the ONNX towers: what a pod does around them is
real, and they refuse whatever the real ones do not take.

Belongs here: `templates` (what each version's backend takes), `backend` (runs inside tritonserver),
`packages` (of Python, in the image), `image` and `program` (how a server finds both), `engines`
(built engines whose files name a Reference engine), `expected` (what that engine answers).
Must not: share code with the runtime's repository or its vision runners: both would be wrong
together.
"""
