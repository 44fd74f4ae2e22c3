"""`mmctl doctor`: are the cluster, and a namespace of it, ready for models?

Every check passes, warns or fails, the last two with what to do. It reads only; what may not be
read is a warning.
"""

import argparse
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from mm_api import labels
from mm_api.v1alpha1.definition import NAME, RELEASE
from mm_api.v1alpha1.quantity import number_of
from mm_ctl.commands.status import coloured
from mm_ctl.connection import Connection, add_connection_options, connection
from mm_operator.cluster.resources import DEFINITION, DEPLOYMENT, NETWORK_POLICY, NODE, Resource
from mm_operator.errors import ClusterError

HEALTHY, FAILED = 0, 1
OLDEST_KUBERNETES = 30
DRIVER = 580
"""What CUDA 13 in the runtime image for GPUs needs."""

NAMESPACE = Resource("v1", "Namespace", "namespaces")
STORAGE_CLASS = Resource("storage.k8s.io/v1", "StorageClass", "storageclasses")
QUOTA = Resource("v1", "ResourceQuota", "resourcequotas")
POLICY = Resource(
    "admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies"
)
OF_OPERATOR = f"{labels.APP_NAME}={labels.MANAGED_BY_VALUE}"
OPERATOR = f"{OF_OPERATOR},{labels.APP_COMPONENT}=operator"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_DRIVER_LABEL = "nvidia.com/cuda.driver.major"
_GPU, _SLICE = "nvidia.com/gpu", "nvidia.com/mig-"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check: pass, warn or fail."""

    result: str
    says: str
    fix: str = ""
    name: str = ""


passed, warned, failed = (partial(Finding, result) for result in ("pass", "warn", "fail"))


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    add_connection_options(parser)


async def run(options: argparse.Namespace) -> int:
    """Print all findings; exit code 1 when one fails."""
    async with connection(options) as there:
        findings = await examine(there)
    if options.output == "json":
        print(json.dumps(list(map(asdict, findings)), indent=2))
    else:
        for finding in findings:
            print(coloured(f"{finding.result:<5} {finding.name:<11} {finding.says}"))
            if finding.fix:
                print(f"{'':<17} fix: {finding.fix}")
    return FAILED if any(finding.result == "fail" for finding in findings) else HEALTHY


async def examine(there: Connection) -> list[Finding]:
    found = []
    for check in CHECKS:
        try:
            finding = await check(there)
        except ClusterError as error:
            if error.status in {0, 401}:  # all others fail, too
                raise
            finding = warned(f"cannot be read: {error}", "let an administrator run this")
        found.append(replace(finding, name=check.__name__.strip("_")))
    return found


def _marks(item: dict[str, Any], kind: str = "labels") -> dict[str, str]:
    return item["metadata"].get(kind) or {}


async def _flags(there: Connection, flag: str) -> list[str]:
    """Return the values of a flag of all operators."""
    return [
        word.partition("=")[2]
        for one in await there.list(DEPLOYMENT, selector=OPERATOR)
        for container in one["spec"]["template"]["spec"]["containers"]
        for word in container.get("args", [])
        if word.startswith(f"--{flag}=")
    ]


async def _kubernetes(there: Connection) -> Finding:
    minor = await there.minor_version()
    if minor and minor < OLDEST_KUBERNETES:
        return failed(f"the API server is 1.{minor}", f"upgrade it to 1.{OLDEST_KUBERNETES}")
    return passed(f"1.{minor}" if minor else "of an unknown version")


async def _definition(there: Connection) -> Finding:
    installed = await there.client.get(DEFINITION, None, NAME)
    if installed is None:
        return failed(f"{NAME} is not installed", "install the chart: helm install")
    release = _marks(installed, "annotations").get(labels.DEFINITION_RELEASE, "unknown")
    if release != RELEASE:
        return warned(f"of release {release}; mmctl is {RELEASE}", f"use mmctl {release}")
    return passed(f"of release {release}")


async def _operator(there: Connection) -> Finding:
    operators = await there.list(DEPLOYMENT, selector=OPERATOR)
    if not operators:
        return failed("no Deployment of the operator", "install the chart: helm install")
    for one in operators:
        name, namespace = one["metadata"]["name"], one["metadata"]["namespace"]
        if not one.get("status", {}).get("readyReplicas"):
            fix = f"kubectl -n {namespace} describe deployment/{name}, and logs of its pods"
            return failed(f"{namespace}/{name} has no ready replica", fix)
    return passed(f"{len(operators)} installed and ready")


async def _namespace(there: Connection) -> Finding:
    name = there.namespace
    found = await there.client.get(NAMESPACE, None, name)
    if found is None:
        return failed(f"there is no namespace {name}", f"kubectl create namespace {name}")
    listed = await _flags(there, "namespace")
    if name in listed or (not listed and _marks(found).get(labels.ENABLED) == "true"):
        return passed(f"{name} is enabled")
    if listed:
        return failed("the operator serves a list of others", f"add {name} to watchNamespaces")
    fix = f"kubectl label namespace {name} {labels.ENABLED}=true"
    return failed(f"{name} has not opted in to models", fix)


async def _gpus(there: Connection) -> Finding:
    products: Counter[str] = Counter()
    for node in await there.list(NODE):
        found = node.get("status", {}).get("allocatable", {})
        count = sum(int(found[name]) for name in found if name == _GPU or name.startswith(_SLICE))
        product = _marks(node).get(labels.GPU_PRODUCT, "")
        if product or count:
            products[product] += count
    if not products:
        fix = "for GPUs install NVIDIA's GPU Operator; backend Reference serves on processors"
        return warned("no node has a GPU", fix)
    if products[""]:
        fix = "install GPU feature discovery, or set spec.runtime.gpu.product in each model"
        return warned(f"{products['']} are on nodes without the label of a product", fix)
    if idle := [product for product, count in products.items() if product and not count]:
        fix = "check the pods of NVIDIA's device plugin on these nodes"
        return failed(f"none can be requested of {', '.join(idle)}", fix)
    return passed(", ".join(f"{products[name]} x {name}" for name in sorted(products) if name))


async def _driver(there: Connection) -> Finding:
    nodes = await there.list(NODE, selector=_DRIVER_LABEL)
    if not nodes:
        return warned("not known", f"install GPU feature discovery, which sets {_DRIVER_LABEL}")
    oldest = min(int(_marks(node)[_DRIVER_LABEL]) for node in nodes)
    if oldest < DRIVER:
        fix = f"update it to {DRIVER} for Dockerfile.cuda; vLLM's image says what it needs"
        return warned(f"the oldest is {oldest}", fix)
    return passed(f"{oldest} or newer")


async def _storage(there: Connection) -> Finding:
    classes = await there.list(STORAGE_CLASS)
    for one in classes:
        if _marks(one, "annotations").get(_DEFAULT_CLASS) == "true":
            return passed(f"the default is {one['metadata']['name']}")
    fix = "mark one as the default, or set spec.build.store.storageClassName in each model"
    return (warned if classes else failed)(f"{len(classes)} classes, and none is the default", fix)


async def _prometheus(there: Connection) -> Finding:
    if found := await _flags(there, "prometheus-address"):
        return passed(", ".join(found))
    fix = "set the chart's prometheus.addresses: autoscaling needs it"
    return warned("the operator has none", fix)


async def _quotas(there: Connection) -> Finding:
    full, limited = [], []
    for quota in await there.list(QUOTA, there.namespace):
        status = quota.get("status") or {}
        for resource, hard in (status.get("hard") or quota["spec"].get("hard") or {}).items():
            used = (status.get("used") or {}).get(resource, "0")
            full += [f"{resource} ({hard})"] if number_of(used) >= number_of(hard) else []
            limited += [resource] if resource.startswith("limits.") else []
    if full:
        return failed(f"used up: {', '.join(full)}", "raise the ResourceQuota")
    if limited:
        fix = "set limits in spec.build, spec.runtime and spec.gateway .resources of models"
        return warned(f"every pod needs {', '.join(limited)}", fix)
    return passed("none is in the way")


async def _admission(there: Connection) -> Finding:
    if await there.list(POLICY, selector=OF_OPERATOR) or await _flags(there, "namespace"):
        return passed("the operator's writes end at the namespaces that it serves")
    return warned("the operator's rights have no policy", "set admissionPolicy.enabled")


async def _network(there: Connection) -> Finding:
    closed = [
        policy["metadata"]["name"]
        for policy in await there.list(NETWORK_POLICY, there.namespace)
        if not policy["spec"].get("podSelector")
        and "Egress" in policy["spec"].get("policyTypes", [])
    ]
    if closed:
        fix = "allow DNS, the source of checkpoints, and pods of one model to each other"
        return warned(f"egress of all pods is limited by {', '.join(closed)}", fix)
    return passed("no policy limits the egress of all pods")


CHECKS: tuple[Callable[[Connection], Awaitable[Finding]], ...] = (
    *(_kubernetes, _definition, _operator, _namespace, _gpus, _driver),
    *(_storage, _prometheus, _quotas, _admission, _network),
)
