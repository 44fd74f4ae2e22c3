"""A real Envoy with the configuration that a Gateway API implementation makes of an InferencePool.

After `config/charts/standalone` of the Gateway API Inference Extension: the endpoint picker reads
each request and names a pod in a header, and the request goes to that address.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from support.ended import logged
from support.ports import free_ports

PICKED = "x-gateway-destination-endpoint"
_TYPES = "type.googleapis.com/envoy.extensions"
_HTTP = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"


@dataclass(frozen=True)
class Envoy:
    """One that runs."""

    url: str
    log: Path


@contextmanager
def running_envoy(folder: Path, picker: int) -> Iterator[Envoy]:
    port, admin = free_ports(2)
    config, log = folder / "envoy.yaml", folder / "envoy.log"
    config.write_text(yaml.safe_dump(_config(port, admin, picker)))
    program = Path(sys.prefix) / "bin" / "envoy"
    command = [
        *(program, "--config-path", config, "--concurrency", "1", "--disable-hot-restart"),
        *("--drain-time-s", "1", "--log-level", "warning"),
    ]
    with logged(command, log):
        yield Envoy(f"http://127.0.0.1:{port}", log)


def _config(port: int, admin: int, picker: int) -> dict[str, Any]:
    routes = {
        "virtual_hosts": [
            {
                "name": "pool",
                "domains": ["*"],
                # No time-out: a stream may last.
                "routes": [
                    {"match": {"prefix": "/"}, "route": {"cluster": "pods", "timeout": "0s"}}
                ],
            }
        ]
    }
    manager = {
        "@type": f"{_TYPES}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "pool",
        "route_config": routes,
        "http_filters": [_picking(), _filter("router", "router.v3.Router")],
    }
    listener = {
        "name": "pool",
        "address": _address(port),
        "per_connection_buffer_limit_bytes": 32768,
        "filter_chains": [
            {
                "filters": [
                    {
                        "name": "envoy.filters.network.http_connection_manager",
                        "typed_config": manager,
                    }
                ]
            }
        ],
    }
    return {
        "admin": {"address": _address(admin)},
        "static_resources": {"listeners": [listener], "clusters": [_pods(), _picker(picker)]},
    }


def _picking() -> dict[str, Any]:
    modes = {f"{part}_header_mode": "SEND" for part in ("request", "response")}
    modes |= {f"{part}_body_mode": "FULL_DUPLEX_STREAMED" for part in ("request", "response")}
    modes |= {f"{part}_trailer_mode": "SEND" for part in ("request", "response")}
    return _filter(
        "ext_proc",
        "ext_proc.v3.ExternalProcessor",
        grpc_service={"envoy_grpc": {"cluster_name": "picker"}, "timeout": "60s"},
        processing_mode=modes,
        message_timeout="60s",
    )


def _filter(name: str, kind: str, **fields: Any) -> dict[str, Any]:
    typed = {"@type": f"{_TYPES}.filters.http.{kind}", **fields}
    return {"name": f"envoy.filters.http.{name}", "typed_config": typed}


def _pods() -> dict[str, Any]:
    return {
        "name": "pods",
        "type": "ORIGINAL_DST",
        "connect_timeout": "60s",
        "lb_policy": "CLUSTER_PROVIDED",
        "original_dst_lb_config": {"use_http_header": True, "http_header_name": PICKED},
    }


def _picker(port: int) -> dict[str, Any]:
    tls = {"@type": f"{_TYPES}.transport_sockets.tls.v3.UpstreamTlsContext"}
    tls["common_tls_context"] = {"alpn_protocols": ["h2"]}  # type: ignore[assignment]
    http2 = {
        "@type": f"type.googleapis.com/{_HTTP}",
        "explicit_http_config": {"http2_protocol_options": {}},
    }
    endpoint = {"endpoint": {"address": _address(port)}}
    return {
        "name": "picker",
        "type": "STATIC",
        "connect_timeout": "60s",
        "transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": tls},
        "typed_extension_protocol_options": {_HTTP: http2},
        "load_assignment": {"cluster_name": "picker", "endpoints": [{"lb_endpoints": [endpoint]}]},
    }


def _address(port: int) -> dict[str, Any]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}
