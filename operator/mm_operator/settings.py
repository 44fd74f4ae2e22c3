"""What an operator process can be configured with: flags."""

import argparse
import re
import socket
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, get_args

from pydantic import ValidationError

from mm_api.base import ApiModel
from mm_api.v1alpha1 import UserIds
from mm_api.v1alpha1.network import NetworkSpec
from mm_operator.cluster.definition import DefinitionUse
from mm_operator.model import KedaSettings, PlanSettings, TracingSettings
from mm_operator.scaling.own_prometheus import KEYS
from mm_operator.scaling.prometheus import OwnPrometheusSettings

BUILDER_VERSION = "1"
"""Version of the build code, part of every fingerprint: a new one builds every engine again."""


@dataclass(frozen=True, slots=True)
class Settings(PlanSettings):
    """Everything the operator process is configured with; flags say what most of it is."""

    lease_namespace: str = "multimodal-system"
    """The operator's own namespace: where the Lease lives."""

    lease_name: str = "multimodal-operator"
    """Name of the Lease. Two installations that serve different namespaces need different ones."""

    role_name: str = ""
    """Name of the Role or ClusterRole that the operator's rights come from: it owns the Leases by
    which namespaces belong to this installation. Empty: they have no owner."""

    namespaces: tuple[str, ...] = ()
    """Namespaces of models; empty means all of them (and needs a ClusterRole)."""

    missing_namespaces: tuple[str, ...] = ()
    watch_nodes: bool = True
    """Read the labels of nodes with GPUs (needs a ClusterRole). Off by default where namespaces are
    named; then the spec names the GPU."""

    definition: DefinitionUse = "Report"
    """What is done about a resource definition that is older than the operator. Upgrade and Report
    need a right on it."""

    port: int = 8080
    """Port of /healthz, /readyz and /metrics; 0 takes a free one and logs it."""

    log_level: str = "info"
    workers: int = 8
    """Models reconciled at the same time. A reconcile mostly waits for the API server."""

    max_rolling_models: int = 1
    resync_seconds: float = 600.0
    """The safety net: everything is looked at again this often, without any write when all is as
    it should be. Each round costs one list of the models, 500 a page."""

    prometheus: OwnPrometheusSettings = field(default_factory=OwnPrometheusSettings)
    gpu_hour_prices: tuple[tuple[str, float], ...] = ()
    """What a GPU costs in an hour, by product as nodes are labelled."""

    leader_worker_set: bool = False
    scaling_interval_seconds: float = 15.0
    """Between two evaluations of the autoscaler; HPA's period, and a usual scrape interval."""

    router_service: str = ""
    """Service of the chart's routers, in the operator's own namespace: they hold the requests of
    models without a replica. Empty: there are none."""

    server_look_seconds: float = 30.0
    """Between two rounds of questions to running servers; a round over 2,000 takes 0.8 s of a core.
    """

    kubeconfig: str | None = None
    """Path; None means the pod's ServiceAccount, or outside a pod the usual places."""

    context: str | None = None
    """Context of the kubeconfig; None means its current one."""

    identity: str = ""
    """Name in the Lease, unique over replicas and restarts."""


def parse_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Return the settings of `mm-operator run`: flags over defaults; SystemExit(2): a wrong flag.

    Of the environment the name of the pod and KUBECONFIG are read.
    """
    parsed = vars(build_parser(environment).parse_args(arguments))
    given: dict[str, Any] = {
        name: tuple(it) if isinstance(it, list) else it for name, it in parsed.items()
    }
    if given["watch_nodes"] is None:
        given["watch_nodes"] = not given["namespaces"]
    own = given["prometheus"] = OwnPrometheusSettings(
        addresses=given["prometheus_address"],
        match_labels=tuple(sorted(given["prometheus_match_label"])),
        credentials=given["prometheus_credentials"],
        server_name=given["prometheus_server_name"],
        insecure=given["prometheus_insecure_skip_verify"],
    )
    given["keda"] = given["keda"] and KedaSettings(
        addresses=own.addresses,
        match_labels=own.match_labels,
        insecure=own.insecure,
        authentication=given["keda_authentication"],
        auth_modes=given["keda_auth_modes"],
    )
    given["routed"] = bool(given["router_service"])
    given["builder_version"] = BUILDER_VERSION
    pod = environment.get("POD_NAME") or socket.gethostname()
    given["identity"] = f"{pod}_{uuid.uuid4().hex[:8]}"
    return Settings(**{one.name: given[one.name] for one in fields(Settings)})


def build_parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    """Return the parser of `mm-operator`; defaults are those of `Settings`."""
    defaults = {one.name: one.default for one in fields(Settings)}
    parser = argparse.ArgumentParser(
        prog="mm-operator", description="Runs the controller of MultimodalModel resources."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="run the controller until SIGTERM")

    def flag(name: str, **options: Any) -> None:
        run.add_argument(f"--{name}", default=defaults[name.replace("-", "_")], **options)

    def several(name: str, field_name: str, metavar: str, text: str, **options: Any) -> None:
        run.add_argument(
            f"--{name}",
            dest=field_name,
            action="append",
            default=[],
            metavar=metavar,
            help=f"{text}; may be given several times",
            **options,
        )

    run.add_argument("--runtime-image", required=True, help="image of a model's pods")
    flag("vllm-image", help="image of servers of backend VLLM")
    flag("lease-namespace")
    flag("lease-name")
    flag(
        "role-name",
        metavar="NAME",
        help="Role (ClusterRole for every namespace) whose removal frees the served namespaces",
    )
    several("namespace", "namespaces", "NAMESPACE", "serve only this namespace")
    several(
        "missing-namespace",
        "missing_namespaces",
        "NAMESPACE",
        "a namespace that did not exist when the rights were made: the log and the metric "
        "mm_operator_namespaces_missing say that it is not served",
    )
    run.add_argument(
        "--watch-nodes",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="read GPUs from node labels; on by default unless namespaces are given",
    )
    flag(
        "definition",
        choices=get_args(DefinitionUse),
        help="a resource definition that is older than the operator: Upgrade replaces it, Report "
        "says so in log and metric, Ignore does not read it",
    )
    flag("port", type=int)
    flag("log-level", choices=["debug", "info", "warning", "error"])
    flag("workers", type=int)
    flag(
        "max-rolling-models",
        type=_one_or_more,
        metavar="N",
        help="models that roll out at the same time after an upgrade or a change of these flags",
    )
    flag("resync-seconds", type=float)
    several(
        "prometheus-address",
        "prometheus_address",
        "URL",
        "where metrics of models are; replicas of each other",
    )
    several(
        "prometheus-match-label",
        "prometheus_match_label",
        "NAME=VALUE",
        "a label that every series of that Prometheus must have",
        type=_pair,
    )
    run.add_argument(
        "--prometheus-credentials",
        metavar="FOLDER",
        help=f"a mounted Secret for that Prometheus, with some of the keys {', '.join(KEYS)}",
    )
    run.add_argument("--prometheus-server-name", default="", metavar="NAME")
    run.add_argument("--prometheus-insecure-skip-verify", action="store_true")
    several(
        "gpu-hour-price",
        "gpu_hour_prices",
        "PRODUCT=PRICE",
        "what a GPU costs in an hour; PRODUCT as in the node label nvidia.com/gpu.product",
        type=_price,
    )
    run.add_argument(
        "--tracing",
        type=partial(_object, TracingSettings, "observability.tracing"),
        metavar="JSON",
        help="where serving pods send traces: endpoint, samplingRatio",
    )
    run.add_argument(
        "--scrape-annotations",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="give pods of models prometheus.io annotations; not where a PodMonitor finds them",
    )
    flag(
        "user-ids",
        choices=get_args(UserIds),
        help="Fixed: pods of models run as 65532; Namespace: user, group and fsGroup are left to "
        "the namespace, as OpenShift's restricted-v2 requires",
    )
    run.add_argument(
        "--network",
        type=partial(_object, NetworkSpec, "spec.network"),
        default=NetworkSpec(),
        metavar="JSON",
        help="spec.network of models that name neither a proxy nor authorities nor a mirror",
    )
    several(
        "image-pull-secret",
        "image_pull_secrets",
        "NAME",
        "Secret in each model's namespace, of models whose runtime.imagePullSecrets is empty",
    )
    run.add_argument(
        "--keda",
        action="store_true",
        default=None,
        help="KEDA is in the cluster: autoscaling.engine KEDA works",
    )
    run.add_argument(
        "--keda-authentication",
        default="",
        metavar="NAME",
        help="ClusterTriggerAuthentication by which KEDA reads that Prometheus",
    )
    run.add_argument(
        "--keda-auth-modes",
        default="",
        metavar="MODES",
        help="what it holds: bearer, basic, tls",
    )
    run.add_argument(
        "--leader-worker-set",
        action="store_true",
        help="LeaderWorkerSet is in the cluster: engine.parallelism.nodes works",
    )
    flag("scaling-interval-seconds", type=float)
    flag("router-service", metavar="NAME", help="Service of routers that hold requests")
    flag(
        "server-look-seconds",
        type=float,
        help="between two rounds of queries to running servers",
    )
    run.add_argument("--kubeconfig", default=environment.get("KUBECONFIG") or None)
    run.add_argument("--context", default=None)
    return parser


def _one_or_more(text: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,5}", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of models; expected 1 or more")
    return int(text)


def _object(kind: type[ApiModel], name: str, text: str) -> ApiModel:
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or name
        raise argparse.ArgumentTypeError(
            f"{where}: {first['msg']}; expected the fields of {name} as JSON"
        ) from None


def _price(text: str) -> tuple[str, float]:
    product, equals, price = text.rpartition("=")
    if not equals or not product or not re.fullmatch(r"[0-9]{1,9}(\.[0-9]+)?", price, re.ASCII):
        raise argparse.ArgumentTypeError(f"{text!r} is not PRODUCT=PRICE, as in NVIDIA-L4=0.81")
    return product, float(price)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", name, re.ASCII):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE with a Prometheus label")
    return name, value
