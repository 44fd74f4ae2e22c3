"""The server's container where its image is a stock one, with nothing of ours in it."""

from typing import Final

from mm_api.contract import CONFIG_MOUNT, WORK_MOUNT
from mm_api.documents.vllm_serve import VllmServe
from mm_operator.children.containers import FEATURES
from mm_operator.children.metadata import Manifest
from mm_operator.children.tracing import stock_arguments
from mm_operator.model import TracingSettings

_CHECK = "import urllib.request as r; r.urlopen('http://127.0.0.1:{port}/health', timeout=4)"
"""The server listens on loopback, which the kubelet does not reach; its image has Python."""

_START_PERIOD, _LIVE_PERIOD, _LIVE_FAILURES = 5, 30, 4
"""A check starts Python, so it is made less often than that of a page. vLLM's /health answers while
steps run; it fails for good when the engine's process is gone."""


_ADDRESS: Final = {
    "name": "VLLM_HOST_IP",
    "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}},
}
"""Where other pods of a group reach this one: vLLM would look for a route to the internet."""


def stock_server(
    server: Manifest, serve: VllmServe, manifest: str, tracing: TracingSettings | None
) -> Manifest:
    """Return our server's container with the command of the plan, and checks from inside."""
    start = server["startupProbe"]
    seconds = start["periodSeconds"] * start["failureThreshold"]
    check = {
        "exec": {"command": ["python3", "-c", _CHECK.format(port=serve.port)]},
        "timeoutSeconds": 10,
    }
    starting = {"periodSeconds": _START_PERIOD, "failureThreshold": -(-seconds // _START_PERIOD)}
    living = {"periodSeconds": _LIVE_PERIOD, "failureThreshold": _LIVE_FAILURES}
    kept = ("name", "image", "imagePullPolicy", "restartPolicy", "resources", "lifecycle")
    return {
        **{name: server[name] for name in (*kept, "securityContext", "terminationMessagePolicy")},
        # An entry point would come first: images of vLLM have different ones.
        "command": serve.argv[:1],
        "args": [*serve.argv[1:], *stock_arguments(tracing, serve.argv)],
        "workingDir": manifest.rpartition("/")[0],
        "env": [
            *server["env"],
            *({"name": name, "value": value} for name, value in serve.environment.items()),
            *([_ADDRESS] if serve.nodes else []),
        ],
        "startupProbe": check | starting,
        "livenessProbe": check | living,
        "volumeMounts": [
            *(
                one
                for one in server["volumeMounts"]
                if one["mountPath"] not in {CONFIG_MOUNT, WORK_MOUNT}
            ),
            *([FEATURES] if serve.features else []),
        ],
    }
