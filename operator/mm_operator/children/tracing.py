"""OpenTelemetry's environment in serving pods, where the installation sends traces somewhere.

Who begins a trace decides whether it is recorded: the gateway, where its client did not. Servers
behind it record what they are sent, and nothing of their own.
"""

from collections.abc import Sequence

from mm_operator.children.metadata import Manifest
from mm_operator.model import Snapshot, TracingSettings

_OTLP_ARGUMENT = "--otlp-traces-endpoint"
_BY_RATIO = "parentbased_traceidratio"
_POD_NAME = {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}


def with_tracing(pod: Manifest, snapshot: Snapshot, revision: str) -> Manifest:
    """Return a pod's spec in which gateway and servers send their spans, where any are wanted."""
    tracing = snapshot.settings.tracing
    if tracing is None:
        return pod
    shared = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": tracing.endpoint,
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",  # vLLM's own default is gRPC
        "OTEL_RESOURCE_ATTRIBUTES": f"k8s.namespace.name={snapshot.namespace},"
        f"k8s.pod.name=$(POD_NAME),multimodal.model={snapshot.name},service.version={revision}",
        "OTEL_TRACES_SAMPLER": "parentbased_always_off",
    }
    ratio = f"{tracing.sampling_ratio:g}"
    samplers = {"OTEL_TRACES_SAMPLER": _BY_RATIO, "OTEL_TRACES_SAMPLER_ARG": ratio}
    of_container = {"gateway": shared | samplers, "server": shared, "encoder": shared}

    def traced(container: Manifest) -> Manifest:
        name = container["name"]
        if name not in of_container:
            return container
        values = of_container[name] | {"OTEL_SERVICE_NAME": f"{snapshot.name}-{name}"}
        variables = [{"name": key, "value": value} for key, value in values.items()]
        return {**container, "env": [*container["env"], _POD_NAME, *variables]}

    kinds = (kind for kind in ("initContainers", "containers") if kind in pod)
    return {**pod, **{kind: [traced(one) for one in pod[kind]] for kind in kinds}}


def stock_arguments(tracing: TracingSettings | None, argv: Sequence[str]) -> list[str]:
    """Return what a command of vLLM lacks to send spans; nothing where its spec says where to."""
    if tracing is None or any(word.startswith(_OTLP_ARGUMENT) for word in argv):
        return []
    return [_OTLP_ARGUMENT, f"{tracing.endpoint.rstrip('/')}/v1/traces"]
