"""`mmctl cost`: what models cost in a window, from prices and requests in Prometheus."""

import argparse
import json
import sys
from pathlib import Path

from mm_ctl.documents import UsageError, http_url
from mm_operator.scaling.answers import MetricsError, Sample, read_vector
from mm_operator.scaling.own_prometheus import read_endpoint
from mm_operator.scaling.prometheus import OwnPrometheusSettings, Prometheus, trust

FAILED = 1
_QUERY_SECONDS = 60.0
_LINE = "{:40} {:>12} {:>10} {:>18} {:>20}"
_COLUMNS = ("MODEL", "COST", "REQUESTS", "PER 1,000 REQUESTS", "PER 1M OUTPUT TOKENS")

_COST = """\
sum_over_time(
  sum by (namespace, model) (
    max by (namespace, model, gpu) (mm_model_gpus{{{where}}})
    * on (gpu) group_left () max by (gpu) (mm_gpu_hour_price)
  )[{window}:1m]
) / 60"""
"""A sample a minute, each of the price of an hour. The chart's rule file records the inner part."""
_TOTAL = "sum by (namespace, model) (increase({counter}[{window}]))"
_WITHOUT_PRICE = "sum by (gpu) (mm_model_gpus{{{where}}} unless on (gpu) mm_gpu_hour_price) > 0"
_MOST_MODELS = 2000
"""What an answer may be about; Prometheus' own limits come later."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--prometheus", required=True, metavar="URL", help="address of Prometheus")
    parser.add_argument(
        "--prometheus-credentials",
        metavar="FOLDER",
        help="folder with any of token, username, password, ca.crt, tls.crt and tls.key",
    )
    parser.add_argument("--window", default="24h", help="time to look back; default: 24h")
    parser.add_argument("-n", "--namespace", default="", help="default: all")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")


async def run(options: argparse.Namespace) -> int:
    """Print the cost of each model that held a GPU; exit code 1: no answer."""
    where = f"namespace=~{json.dumps(options.namespace or '.+')}"
    window = options.window
    queries = {
        "cost": _COST.format(where=where, window=window),
        "requests": _TOTAL.format(
            counter=f'mm_requests_total{{{where},code=~"2.."}}', window=window
        ),
        "outputTokens": _TOTAL.format(counter=f"mm_output_tokens_total{{{where}}}", window=window),
        "withoutPrice": _WITHOUT_PRICE.format(where=where),
    }
    try:
        found = await _answers(options, queries)
    except MetricsError as error:
        print(f"mmctl: {error}", file=sys.stderr)
        return FAILED
    unpriced = [sample.labels["gpu"] for sample in found.pop("withoutPrice")]
    totals = {name: {_key(one): one.value for one in samples} for name, samples in found.items()}
    models = {
        model: {name: total.get(model, 0.0) for name, total in totals.items()}
        for model in sorted(totals["cost"])
    }
    if options.output == "json":
        print(json.dumps(models, indent=2))
        return 0
    rows = [_row(key, *one.values()) for key, one in models.items()]
    print("\n".join(_LINE.format(*row) for row in (_COLUMNS, *rows)))
    for product in unpriced:
        print(f"{product} has no price: set the chart's observability.gpuHourPrices")
    return 0


def _settings(options: argparse.Namespace) -> OwnPrometheusSettings:
    folder = options.prometheus_credentials
    if folder and not Path(folder).is_dir():
        raise UsageError(f"--prometheus-credentials {folder} is not a folder")
    return OwnPrometheusSettings(
        (http_url("--prometheus", options.prometheus),), credentials=folder
    )


async def _answers(options: argparse.Namespace, queries: dict[str, str]) -> dict[str, list[Sample]]:
    endpoint = read_endpoint(_settings(options))
    client = Prometheus(endpoint, trust(endpoint), _QUERY_SECONDS)
    try:
        return {
            name: read_vector(await client.query(promql, _MOST_MODELS))
            for name, promql in queries.items()
        }
    finally:
        await client.close()


def _key(sample: Sample) -> str:
    return f"{sample.labels['namespace']}/{sample.labels['model']}"


def _row(model: str, spent: float, requests: float, tokens: float) -> tuple[str, ...]:
    return (
        model,
        f"{spent:,.2f}",
        f"{requests:,.0f}",
        f"{1000 * spent / requests:,.2f}" if requests else "-",
        f"{1_000_000 * spent / tokens:,.2f}" if tokens else "-",
    )
