"""The first stages: programs, cluster, images."""

import re
from pathlib import Path

from mm_devcluster import cluster, packages
from mm_devcluster.binaries import NODE, ensure_binaries
from mm_devcluster.demo.graph import Report
from mm_devcluster.demo.session import Session
from mm_devcluster.demo.target import REQUEST_TIMEOUT, Target, current_target
from mm_devcluster.errors import DevClusterError, MissingRequirementsError
from mm_devcluster.images.base import base_layer
from mm_devcluster.images.catalogue import VLLM, Stock, compose
from mm_devcluster.images.environment import environment_layers
from mm_devcluster.preflight import missing_for_node

MEGABYTE = 1_000_000
DNS_SECONDS = 120
CPUINFO = Path("/proc/cpuinfo")


def check_machine(session: Session, report: Report) -> str:
    """Install the Debian packages that are missing, then see whether a node can run here."""
    more = packages.VLLM_PACKAGES if VLLM in session.options.family.images else ()
    wanted = (*packages.NODE_PACKAGES, *packages.IMAGE_PACKAGES, *more)
    missing = packages.missing_packages(wanted)
    packages.install(wanted, lambda _, detail: report(detail))
    lacking = missing_for_node(session.options.cluster)
    if lacking:
        raise MissingRequirementsError(lacking)
    if VLLM in session.options.family.images and not has_avx512(CPUINFO.read_text()):
        raise DevClusterError(
            "this processor has no AVX512, which this build of vLLM computes with: use another "
            "machine, or `make demo`, which serves with the Reference engine"
        )
    return f"{len(missing)} packages installed" if missing else "nothing to install"


def has_avx512(cpuinfo: str) -> bool:
    """Return whether the processor of /proc/cpuinfo has AVX512."""
    return re.search(r"^flags\b.*\bavx512f\b", cpuinfo, re.MULTILINE) is not None


def build_programs(_session: Session, report: Report) -> str:
    """Compile Kubernetes, etcd and CoreDNS, or find them in the cache."""
    ensure_binaries(NODE, lambda _, detail: report(detail))
    return f"{len(NODE)} programs"


def start_cluster(session: Session, report: Report) -> str:
    """Start the development cluster, or find it running."""
    options = cluster.ClusterOptions(
        name=session.options.cluster, ip_family=session.options.ip_family, await_node=False
    )
    info = cluster.up(options, lambda stage, detail: report(f"{stage}: {detail}"))
    session.found_target = Target(info.name, info.kubeconfig, info.kubectl)
    return f"API server at {info.server}"


def await_dns(session: Session, _report: Report) -> str:
    """Wait for the node, and until names of Services resolve: only pods of models need it."""
    where = ("--namespace", "kube-system", f"--timeout={DNS_SECONDS}s")
    command = ("rollout", "status", "deployment/coredns", *where)
    session.target.call(*command, timeout=DNS_SECONDS + REQUEST_TIMEOUT)
    return "ready"


def use_current_cluster(session: Session, report: Report) -> str:
    """Use the cluster of the current kubectl context, with images that it can pull."""
    if session.options.family.images:
        raise DevClusterError(
            "BACKEND=VLLM builds an image of vLLM for CPUs, which CLUSTER=current cannot pull: "
            "leave one of them out"
        )
    if not (session.options.operator_image and session.options.runtime_image):
        raise DevClusterError(
            "CLUSTER=current needs images that its nodes can pull. Build them with "
            "operator/Dockerfile and runtime/Dockerfile, push them, and name them: "
            "make demo CLUSTER=current OPERATOR_IMAGE=... RUNTIME_IMAGE=..."
        )
    session.found_target = current_target(report)
    context = session.target.call("config", "current-context").strip()
    return f"context {context}"


def make_base(session: Session, report: Report) -> str:
    """Make the layer that both images stand on."""
    session.base = base_layer(report)
    return f"{session.base.size // MEGABYTE} MB"


def make_image(session: Session, recipe: Stock, report: Report) -> str:
    """Put one image together from layers, writing those that are not in the cache."""
    environment = environment_layers(recipe.environment, report)
    report("packing the code")
    top = recipe.top()
    if session.base is None:
        raise RuntimeError("an image was requested before its base layer")
    image = compose(recipe, (session.base, *environment, top))
    session.images[recipe.name] = image
    return f"{sum(layer.size for layer in image.layers) // MEGABYTE} MB, {image.reference}"


def load_image(session: Session, recipe: Stock, report: Report) -> str:
    """Send the layers of an image that the node does not hold yet."""
    image = session.images[recipe.name]
    report(f"sending what the node lacks of {image.reference}")
    loaded = cluster.load_image(session.options.cluster, image)
    if not loaded.references:
        return "the node has it"
    kept = loaded.kept_bytes // MEGABYTE
    return f"{loaded.sent_bytes / MEGABYTE:.1f} MB sent, {kept} MB were there"
