"""What the operator writes into pods and `mm-runtime` reads there: ports, paths, flags, exit codes.

Both halves, the development cluster and the chart (`tools/generate_templates.py`) take them from
here. What the two exchange in files is in `mm_api.documents`.
"""

from enum import IntEnum
from typing import Final

HTTP_PORT: Final = 8000
"""Triton's HTTP endpoint, or trtllm-serve: the default of both."""

GRPC_PORT: Final = 8001
"""Triton's gRPC endpoint, which the Service of encoders keeps."""

LORA_HOST_BYTES: Final = 1 << 30
"""Host memory for adapters of TensorRT-LLM's own backend, its default."""

VLLM_IMAGE: Final = "vllm/vllm-openai:v0.26.0"
"""The image of vLLM where no spec names one: the version that was measured on an H200."""

LLM_PORT: Final = 8003
"""TensorRT-LLM's LLM API inside of Triton, for the gateway: on loopback."""

METRICS_PORT: Final = 8002
"""Metrics, state and health of a server, from its supervisor."""

GATEWAY_PORT: Final = 8080
"""The OpenAI endpoint, with metrics and health of the gateway."""

ROUTER_PORT: Final = 8080
"""The router's OpenAI endpoint for all models."""

REPLAY_HEADER: Final = "x-multimodal-replay"
"""Marks what the router sends once more, to compare revisions: clients come first."""

MODEL_ALIAS: Final = "model"
"""What programs call the one model of DashInfer-VLM's server: at gateway and router, too, where
there is one."""

ROUTER_METRICS_PORT: Final = 8082
"""Its metrics and health: not for clients."""

SOURCE_MOUNT: Final = "/mnt/source"
"""The checkpoint's claim, or the one with the Hub's cache. A mount shows one claim, no more."""

STORE_MOUNT: Final = "/mnt/store"
"""The engines' claim."""

ADAPTERS_MOUNT: Final = "/mnt/adapters"
"""Folder with a mount for each claim of LoRA adapters."""

CONFIG_MOUNT: Final = "/etc/multimodal"
"""The ConfigMap with `PLAN_FILE` or `SERVING_FILE`."""

PLAN_FILE: Final = "plan.json"
"""A `BuildPlan`; also the key of its ConfigMap."""

SERVING_FILE: Final = "serving.json"
"""A `ServingPlan`; also the key of its ConfigMap."""

WORK_MOUNT: Final = "/var/lib/multimodal"
"""An emptyDir: the root file system is read-only."""

REPOSITORY: Final = f"{WORK_MOUNT}/repository"
"""Triton's model repository."""

FEATURES_MOUNT: Final = "/mnt/features"
"""Backend VLLM with disaggregated encoders: the pod's own memory, where features of images are."""

AUTH_MOUNT: Final = "/etc/multimodal-auth"
AUTH_FILE: Final = "tokens"
"""The bearer tokens that clients must send, as a file: a changed Secret needs no restart."""

CA_MOUNT: Final = "/etc/multimodal-authorities"
CA_FILE: Final = "ca.crt"
"""Certificates of the authorities that a container trusts in place of the public ones."""

TERMINATION_LOG: Final = "/dev/termination-log"

SERVER_LIVE: Final = "/health/live"
SERVER_READY: Final = "/health/ready"
"""On the port of metrics: the server itself listens on loopback only."""

GATEWAY_LIVE: Final = "/healthz"
GATEWAY_READY: Final = "/readyz"
GATEWAY_EVALUATION: Final = "/evaluation"
"""How the engine compares with its checkpoint: read by the server's supervisor in the same pod."""

METRICS_PATH: Final = "/metrics"


class Command:
    """Commands of `mm-runtime` that the operator and mmctl run."""

    PROGRAM = "mm-runtime"
    INSPECT = "inspect"
    BUILD = "build"
    SERVE = "serve"
    GATEWAY = "gateway"
    COMPARE = "compare"
    DOCTOR = "doctor"
    STORE = "store"
    STORE_GC = "gc"
    STORE_PULL = "pull"


class Flag:
    """Options of these commands that the operator gives."""

    ADAPTER = "--adapter"
    ADDRESS = "--address"
    ALLOW_PICKLE = "--allow-pickle"
    AUTH_TOKEN_FILE = "--auth-token-file"  # noqa: S105 (a name)
    FAMILY = "--family"
    GATEWAY_PORT = "--gateway-port"
    GRPC_ADDRESS = "--grpc-address"
    GRPC_PORT = "--grpc-port"
    HOLDER = "--holder"
    HTTP_PORT = "--http-port"
    KEEP = "--keep"
    MANIFEST = "--manifest"
    METRICS_PORT = "--metrics-port"
    SERVER_METRICS = "--server-metrics"
    PAGE_ADDRESS = "--page-address"
    PLAN = "--plan"
    PLAN_SHA256 = "--plan-sha256"
    PORT = "--port"
    REPOSITORY = "--repository"
    ROLE = "--role"
    SERVING = "--serving"
    SOURCE = "--source"
    STARTUP_TIMEOUT = "--startup-timeout"
    STORE = "--store"
    TERMINATION_LOG = "--termination-log"
    TO = "--to"
    TRITON = "--triton"
    TRUST_REMOTE_CODE = "--trust-remote-code"
    UNUSED_FOR = "--unused-for"
    URL = "--url"
    WORK = "--work"


TIME_LIMIT_VARIABLE: Final = "MM_TIME_LIMIT_SECONDS"
"""Environment variable: how long a command of a Job may run, from its own start. No flag, which an
older runtime image would refuse."""


class ExitCode(IntEnum):
    """Exit codes of `mm-runtime`. Every other code means: worth another try."""

    OK = 0
    RETRY = 1
    """Something outside of the input went wrong: a full disk, a lost mount, an interrupt."""
    USAGE = 2
    """The command line was wrong (argparse's own code)."""
    PERMANENT = 3
    """The input is wrong; the same input fails again. Do not retry."""
    SOURCE_CHANGED = 4
    """The checkpoint is not the one that was inspected: inspect again."""
    STORE_NOT_WRITABLE = 5
    """The store is full or read-only. Another try helps once there is room."""
    ENGINE_CORRUPT = 6
    """A file of an engine is not what the manifest says; the termination message names it. The
    operator builds such an engine again."""
    GPU_OUT_OF_MEMORY = 7
    """The GPU has too little free memory for what is loaded; the termination message has bytes."""
    GPU_UNUSABLE = 8
    """No GPU of the pod can be used. The operator replaces such a pod once it has failed twice."""
    WEIGHTS_UNUSABLE = 9
    """A step of a build: the weights are not those of the checkpoint's class, or not finite."""
    TIMED_OUT = 124
    """The command ran longer than `TIME_LIMIT_VARIABLE` allows (the code of coreutils' timeout)."""
    TERMINATED = 143
    """SIGTERM ended the command (128 + 15, as a shell would say it)."""


INSPECT_PERMANENT: Final = (ExitCode.USAGE, ExitCode.PERMANENT)
"""The same files give the same answer."""

BUILD_PERMANENT: Final = (*INSPECT_PERMANENT, ExitCode.SOURCE_CHANGED)

CANNOT_START: Final = (127, 128)
"""Exit codes that container runtimes give a container whose program could not be started: 128 with
containerd, 127 with Docker. `mm-runtime` ends with neither."""
