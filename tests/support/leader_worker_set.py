"""The real LeaderWorkerSet beside a cluster, with its webhooks: an admin, outside of it."""

import base64
import ipaddress
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import yaml

from mm_devcluster.cluster import ClusterInfo
from support.certificates import signed_by_an_authority
from support.clusters import apply, kubectl
from support.ended import logged
from support.eventually import eventually
from support.go_modules import compiled, module_folder
from support.ports import free_ports

MODULE = "sigs.k8s.io/lws"
NAME = "leaderworkerset.sigs.k8s.io/name"
START_SECONDS = 120.0


@contextmanager
def running_leader_worker_set(cluster: ClusterInfo, folder: Path) -> Iterator[None]:
    """Run the controller until the block ends; skip where it is not compiled."""
    (program,) = compiled("MM_BUILD_LWS", "`make groups-test` does that, in 5 CPU-minutes", "lws")
    config = module_folder("lws", MODULE) / "config"
    definition = config / "crd" / "bases" / "leaderworkerset.x-k8s.io_leaderworkersets.yaml"
    kubectl(cluster, "apply", "--server-side", "--force-conflicts", "-f", str(definition))
    # The machine is the address before that of the node, which cannot reach its loopback.
    host = ipaddress.ip_address(urlsplit(cluster.server).hostname or "") - 1
    authority, _ = signed_by_an_authority(folder, "tls", f"IP:{host}")
    webhook, health = free_ports(2)
    settings = {
        "apiVersion": "config.lws.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "webhook": {"host": str(host), "port": webhook, "certDir": str(folder)},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
    }
    (folder / "lws.yaml").write_text(yaml.safe_dump(settings))
    hooks = _webhooks(config, f"https://{host}:{webhook}", authority.read_bytes())
    log = folder / "lws.log"
    command = [program, f"--config={folder / 'lws.yaml'}", f"--kubeconfig={cluster.kubeconfig}"]

    def ready() -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{health}/readyz", timeout=5).is_success
        except httpx.TransportError:
            return False

    with logged(command, log):
        eventually(ready, seconds=START_SECONDS, showing=lambda: log.read_text()[-3000:])
        try:
            apply(cluster, *hooks)
            yield
        finally:
            for hook in hooks:
                kubectl(cluster, "delete", hook["kind"], hook["metadata"]["name"])


def _webhooks(config: Path, address: str, authority: bytes) -> list[dict[str, Any]]:
    """Return its webhooks at an address; those for pods are about pods of groups alone."""
    found: list[dict[str, Any]] = []
    text = (config / "webhook" / "manifests.yaml").read_text()
    for one in filter(None, yaml.safe_load_all(text)):
        one["metadata"]["name"] = f"lws-{one['kind'].lower()}"
        for hook in one["webhooks"]:
            path = hook["clientConfig"]["service"]["path"]
            bundle = base64.b64encode(authority).decode()
            hook["clientConfig"] = {"url": f"{address}{path}", "caBundle": bundle}
            if "pods" in hook["rules"][0]["resources"]:
                exists = {"key": NAME, "operator": "Exists"}
                hook["objectSelector"] = {"matchExpressions": [exists]}
        found.append(one)
    return found
