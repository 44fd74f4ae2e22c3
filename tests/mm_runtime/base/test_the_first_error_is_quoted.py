"""A server that cannot start is quoted by its first error; its last lines are tables.

The logs are those of tritonserver with the Python and the TensorRT-LLM backend and of trtllm-serve.
"""

import pytest

from mm_runtime.base.first_errors import CHARACTERS, FirstErrors

TABLES = """\
I1128 10:00:09.100000 17 server.cc:611]
+------------------+------+
| Repository Agent | Path |
+------------------+------+
+------------------+------+
I1128 10:00:09.110000 17 server.cc:681]
+--------------+---------+-----------------------------------------------------------------+
| Model        | Version | Status                                                          |
+--------------+---------+-----------------------------------------------------------------+
| preprocess   | 1       | READY                                                           |
| tensorrt_llm | 1       | UNAVAILABLE: Internal: {row} |
+--------------+---------+-----------------------------------------------------------------+
I1128 10:00:09.120000 17 tritonserver.cc:2598]
+----------------------------------+-------------------------------------------------------+
| Option                           | Value                                                 |
+----------------------------------+-------------------------------------------------------+
| server_id                        | triton                                                |
| model_repository_path[0]         | /repository                                           |
+----------------------------------+-------------------------------------------------------+
I1128 10:00:09.130000 17 server.cc:305] "Waiting for in-flight requests to complete."
I1128 10:00:09.140000 17 server.cc:351] "All models are stopped, unloading models"
error: creating server: Internal - failed to load all models
"""

IMPORT = """\
I1128 10:00:01.000000 17 model_lifecycle.cc:472] "loading: tensorrt_llm:1"
E1128 10:00:05.000000 17 pb_stub.cc:711] "Failed to initialize Python stub: ModuleNotFoundError: \
No module named 'gptqmodel'"
E1128 10:00:05.100000 17 model_lifecycle.cc:654] "failed to load 'tensorrt_llm' version 1: \
Internal: ModuleNotFoundError: No module named 'gptqmodel'"
""" + TABLES.format(row="ModuleNotFoundError: No module named 'gptqmodel'")

CUDA = """\
Loading checkpoint shards:  50%|#####     | 1/2 [00:01<00:01]
Traceback (most recent call last):
  File "/app/mm_runtime/serving/generate/model.py", line 81, in initialize
    self._engine = load(path)
                   ^^^^^^^^^^
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 512 MiB free

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/app/mm_runtime/serving/generate/model.py", line 90, in initialize
    raise RuntimeError("no engine") from error
RuntimeError: no engine
""" + TABLES.format(row="RuntimeError: no engine")

STATE = """\
Traceback (most recent call last):
  File "/app/x.py", line 3, in load
    model.load_state_dict(weights)
RuntimeError: Error(s) in loading state_dict for LlavaForConditionalGeneration:
\tsize mismatch for lm_head.weight: copying a param with shape torch.Size([8, 4])
""" + TABLES.format(row="RuntimeError")

NATIVE = """\
[TensorRT-LLM][INFO] Engine version 0.20.0 found in the config file, assuming engine(s) built
[1,0]<stderr>:[TensorRT-LLM][ERROR] 6: The engine plan file is generated on an incompatible \
device, expecting compute 9.0 got compute 8.0
[1,0]<stderr>:E1128 10:00:05.000000 17 backend_model.cc:692] "ERROR: Failed to create instance: \
unexpected error when creating modelInstanceState: [TensorRT-LLM][ERROR] Assertion failed"
""" + TABLES.format(row="unexpected error")

MISSING = """\
I1128 10:00:01.000000 17 model_lifecycle.cc:472] "loading: tensorrt_llm:1"
E1128 10:00:02.000000 17 model_lifecycle.cc:654] "failed to load 'tensorrt_llm' version 1: \
Not found: unable to load shared library: libnvinfer.so.10: cannot open shared object file: No \
such file or directory"
""" + TABLES.format(row="unable to load")

SERVE = """\
2026-11-28 10:00:01,000 - INFO - flashinfer is available: 0.2.5
[11/28/2026-10:00:02] [TRT-LLM] [I] Using LLM with PyTorch backend
[11/28/2026-10:00:09] [TRT-LLM] [E] Failed to initialize executor on rank 0: 'rope_scaling'
Traceback (most recent call last):
  File "/usr/bin/trtllm-serve", line 8, in <module>
    sys.exit(main())
KeyError: 'rope_scaling'
--------------------------------------------------------------------------
MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD
"""

ABORT = """\
I1128 10:00:01.000000 17 model_lifecycle.cc:472] "loading: tensorrt_llm:1"
terminate called after throwing an instance of 'boost::interprocess::lock_exception'
  what():  boost::interprocess::lock_exception
Signal (6) received.
 0# 0x000055D0 in tritonserver
"""

ONLY_A_TABLE = TABLES.format(row="model file is empty")

PORT = """\
E1129 01:24:21.690117 4506 server.cc:241] "CudaDriverHelper has not been initialized."
E1129 01:24:44.900410 4506 ensemble_scheduler.cc:1468] "unable to create stream for ensemble: CUDA \
driver version is insufficient for CUDA runtime version"
Error: Failed to initialize NVML
W1129 01:24:44.903277 4506 metrics.cc:798] "DCGM unable to start: DCGM initialization error"
E1129 01:24:44.905062925    4506 chttp2_server.cc:1060]           UNKNOWN:No address added \
out of total 1 resolved for '127.0.0.1:34441' {created_time:"2026-11-29T01:24:44.90500091+00:00"}
E1129 01:24:44.908707 4506 main.cc:245] "failed to start GRPC service: Unavailable - Socket \
'127.0.0.1:34441' already in use "
"""

PROCESSES = """\
INFO 11-29 10:00:01 [config.py:600] ERROR counters begin at 0
Exception ignored in: <function Handle.__del__ at 0x7f21>
Traceback (most recent call last):
  File "/app/x.py", line 3, in __del__
AttributeError: 'Handle' object has no attribute 'h'
(Engine_0 pid=272) ERROR 11-29 10:00:09 [core.py:70] It failed: Traceback (most recent call last):
(Engine_0 pid=272) ERROR 11-29 10:00:09 [core.py:70]   File "/app/core.py", line 69, in run
(Engine_0 pid=272) ERROR 11-29 10:00:10 [core.py:70] ValueError: 16 GiB are needed
[rank1]: Traceback (most recent call last):
[rank1]:   File "/app/x.py", line 3, in <module>
[rank1]: torch.distributed.DistBackendError: unhandled system error
"""

BUS = """\
I1129 10:00:00.1 1 python_be.cc:2289] TRITONBACKEND_ModelInstanceInitialize: tensorrt_llm_0_0
Fatal Python error: Bus error

Thread 0x00007f0a (most recent call first):
  File "/opt/model.py", line 4 in load
Signal (7) received.
"""

FIELD = """\
Traceback (most recent call last):
  File "/usr/bin/trtllm-serve", line 8, in <module>
    sys.exit(main())
pydantic_core._pydantic_core.ValidationError: 1 validation error for TorchLlmArgs
enable_chunked
  Extra inputs are not permitted [type=extra_forbidden, input_value=True, input_type=bool]
"""

LOGS = [
    pytest.param(BUS, "Fatal Python error: Bus error", id="memory-map-cut-off"),
    pytest.param(
        FIELD,
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for TorchLlmArgs "
        "enable_chunked Extra inputs are not permitted",
        id="field-that-is-refused",
    ),
    pytest.param(
        IMPORT,
        "Failed to initialize Python stub: ModuleNotFoundError: No module named 'gptqmodel'",
        id="module-is-missing",
    ),
    pytest.param(
        CUDA,
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. "
        "GPU 0 has 512 MiB free",
        id="gpu-memory",
    ),
    pytest.param(
        STATE,
        "RuntimeError: Error(s) in loading state_dict for "
        "LlavaForConditionalGeneration: size mismatch for lm_head.weight: copying a "
        "param with shape torch.Size([8, 4])",
        id="weights-of-another-shape",
    ),
    pytest.param(
        NATIVE,
        "[TensorRT-LLM][ERROR] 6: The engine plan file is generated on an "
        "incompatible device, expecting compute 9.0 got compute 8.0",
        id="other-gpu",
    ),
    pytest.param(
        MISSING,
        "failed to load 'tensorrt_llm' version 1: Not found: unable to load "
        "shared library: libnvinfer.so.10: cannot open shared object file: No such file "
        "or directory",
        id="file-is-missing",
    ),
    pytest.param(
        SERVE,
        "[11/28/2026-10:00:09] [TRT-LLM] [E] Failed to initialize executor on "
        "rank 0: 'rope_scaling'",
        id="trtllm-serve",
    ),
    pytest.param(
        ABORT,
        "terminate called after throwing an instance of 'boost::interprocess::lock_exception'",
        id="abort",
    ),
    pytest.param(
        PROCESSES,
        "ValueError: 16 GiB are needed\n  torch.distributed.DistBackendError: unhandled system",
        id="lines-of-processes",
    ),
    pytest.param(ONLY_A_TABLE, "model tensorrt_llm: Internal: model file is empty", id="table"),
    pytest.param(
        PORT,
        "UNKNOWN:No address added out of total 1 resolved for '127.0.0.1:34441' "
        '{created_time:"..."}',
        id="port-in-use",
    ),
]


def quoted(log: str) -> str:
    errors, lines = FirstErrors(), [line.rstrip() for line in log.splitlines() if line.strip()]
    for line in lines:
        errors.add(line)
    return errors.quoted(lines)


@pytest.mark.parametrize(("log", "expected"), LOGS)
def test_the_first_error_is_quoted(log: str, expected: str) -> None:
    found = quoted(log).removeprefix(": ")
    _, *others = found.removeprefix(expected).split("\n  ")
    assert (found.startswith(expected), len(found) < 1000) == (True, True)
    assert "failed to load all models" not in found
    assert not [other for other in others if other.startswith(("|", "+", "I1128"))]


def test_an_end_without_an_error_has_its_last_lines() -> None:
    lines = [f"I1128 10:00:01.000000 17 model.cc:1] loading {number}" for number in range(40)]
    assert quoted("\n".join(lines)).split("\n  ") == ["; last lines:", *lines[-10:]]


def test_errors_are_bounded() -> None:
    long = "ERROR " + "x" * 100_000
    assert len(quoted(f"{long}\n" * 50)) <= CHARACTERS + 10
    many = "\n".join(f"ERROR number {number}" for number in range(50))
    assert quoted(many) == ": ERROR number 0\n  ERROR number 1\n  ERROR number 2"
    endless = "Traceback (most recent call last):\n" + "  File x\n" * 10_000 + "ValueError: no"
    assert quoted(endless) == ": ValueError: no"
