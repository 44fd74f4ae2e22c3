"""How pods reach servers outside: the proxy and the authorities, added to a pod that is built.

Only where some are set: pods of models without them stay as they are.
"""

from collections.abc import Container

from mm_api.contract import CA_FILE, CA_MOUNT
from mm_api.v1alpha1.network import NetworkSpec
from mm_operator.children.metadata import Manifest
from mm_operator.children.pod import file_of

VOLUME = "authorities"


def with_network(pod: Manifest, network: NetworkSpec, *, proxied: Container[str] = ()) -> Manifest:
    """Return a pod's spec with the bundle in every container, and the proxy in some.

    `proxied`: names of the containers that read sources and stores.
    """
    proxy = _proxy(network)
    changed = {
        kind: [
            _with_network(one, network, proxy if one["name"] in proxied else [])
            for one in pod[kind]
        ]
        for kind in ("initContainers", "containers")
        if kind in pod
    }
    bundle = network.ca_bundle
    if bundle is None:
        return {**pod, **changed}
    volume = file_of(VOLUME, bundle.config_map_name, bundle.key, CA_FILE)
    return {**pod, **changed, "volumes": [*pod["volumes"], volume]}


def _with_network(container: Manifest, network: NetworkSpec, variables: list[Manifest]) -> Manifest:
    if network.ca_bundle:
        variables = [*variables, {"name": "SSL_CERT_FILE", "value": f"{CA_MOUNT}/{CA_FILE}"}]
        mount = {"name": VOLUME, "mountPath": CA_MOUNT, "readOnly": True}
        container = {**container, "volumeMounts": [*container["volumeMounts"], mount]}
    return {**container, "env": [*container["env"], *variables]} if variables else container


def _proxy(network: NetworkSpec) -> list[Manifest]:
    proxy = network.proxy
    direct = ",".join(proxy.no_proxy) if proxy.http or proxy.https else None
    values = {"HTTP_PROXY": proxy.http, "HTTPS_PROXY": proxy.https, "NO_PROXY": direct}
    return [{"name": name, "value": value} for name, value in values.items() if value]
