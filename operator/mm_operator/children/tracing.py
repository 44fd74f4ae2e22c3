"""OpenTelemetry's environment in serving pods, where the installation sends traces somewhere.

Who begins a trace decides whether it is recorded: the gateway, where its client did not. Servers
behind it record what they are sent, and nothing of their own.
"""

from collections.abc import Sequence

from mm_operator.children.metadata import Manifest
from mm_operator.model import TracingSettings

_OTLP_ARGUMENT = "--otlp-traces-endpoint"


def with_tracing(
    pod: Manifest, tracing: TracingSettings | None, *, namespace: str, model: str, revision: str
) -> Manifest:
    """Return a pod's spec in which gateway and servers send their spans; None: as it is."""
    if tracing is None:
        return pod
    resource = {
        "k8s.namespace.name": namespace,
        "k8s.pod.name": "$(POD_NAME)",
        "multimodal.model": model,
        "service.version": revision,
    }
    common = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": tracing.endpoint,
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",  # vLLM's own default is gRPC
        "OTEL_RESOURCE_ATTRIBUTES": ",".join("=".join(pair) for pair in resource.items()),
    }
    name_of_pod = {"fieldRef": {"fieldPath": "metadata.name"}}

    def traced(container: Manifest) -> Manifest:
        name = container["name"]
        if name not in {"gateway", "server", "encoder"}:
            return container
        own = {
            "OTEL_SERVICE_NAME": f"{model}-{name}",
            "OTEL_TRACES_SAMPLER": "parentbased_always_off",
        }
        if name == "gateway":
            own["OTEL_TRACES_SAMPLER"] = "parentbased_traceidratio"
            own["OTEL_TRACES_SAMPLER_ARG"] = f"{tracing.sampling_ratio:g}"
        variables = [{"name": key, "value": value} for key, value in (common | own).items()]
        before = {"name": "POD_NAME", "valueFrom": name_of_pod}
        return {**container, "env": [*container["env"], before, *variables]}

    kinds = (kind for kind in ("initContainers", "containers") if kind in pod)
    return {**pod, **{kind: [traced(one) for one in pod[kind]] for kind in kinds}}


def stock_arguments(tracing: TracingSettings | None, argv: Sequence[str]) -> list[str]:
    """Return what a command of vLLM lacks to send spans; nothing where its spec says where to."""
    if tracing is None or any(word.startswith(_OTLP_ARGUMENT) for word in argv):
        return []
    return [_OTLP_ARGUMENT, f"{tracing.endpoint.rstrip('/')}/v1/traces"]
