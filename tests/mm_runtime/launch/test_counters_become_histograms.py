"""Triton's models count each bucket by itself; the page shows histograms as Prometheus has them."""

from prometheus_client.parser import text_string_to_metric_families

from mm_api.metrics import Metric, MetricKind
from mm_runtime.launch.exposition import with_histograms

SECONDS = Metric("mm_encoder_seconds", MetricKind.HISTOGRAM, "From pixels.", ("by",), (0.1, 1))
BATCH = Metric("mm_batch", MetricKind.HISTOGRAM, "Together.", (), (1, 2))
TRITONS = """\
# HELP nv_inference_count Number of inferences
# TYPE nv_inference_count counter
nv_inference_count{model="ensemble",version="1"} 7
# HELP mm_encoder_seconds_bucket From pixels.
# TYPE mm_encoder_seconds_bucket counter
mm_encoder_seconds_bucket{by="own",le="1.0"} 2
mm_encoder_seconds_bucket{by="own",le="0.1"} 1
mm_encoder_seconds_bucket{by="own",le="+Inf"} 4
mm_encoder_seconds_bucket{le="0.1",by="encoders"} 0
mm_encoder_seconds_bucket{le="1.0",by="encoders"} 5
mm_encoder_seconds_bucket{le="+Inf",by="encoders"} 0
# HELP mm_encoder_seconds_sum From pixels.
# TYPE mm_encoder_seconds_sum counter
mm_encoder_seconds_sum{by="encoders"} 2.5
mm_encoder_seconds_sum{by="own"} 11.25
# HELP mm_batch_bucket Together.
# TYPE mm_batch_bucket counter
mm_batch_bucket{le="1.0"} 3
mm_batch_bucket{le="2.0"} 0
mm_batch_bucket{le="+Inf"} 1
# HELP mm_batch_sum Together.
# TYPE mm_batch_sum counter
mm_batch_sum 7
# HELP mm_other_sum Not ours to change
# TYPE mm_other_sum counter
mm_other_sum 1
"""


def test_counts_are_added_up() -> None:
    lines = with_histograms(TRITONS, (SECONDS, BATCH)).splitlines()
    assert lines[3:] == [
        "# HELP mm_other_sum Not ours to change",
        "# TYPE mm_other_sum counter",
        "mm_other_sum 1",
        "# HELP mm_encoder_seconds From pixels.",
        "# TYPE mm_encoder_seconds histogram",
        'mm_encoder_seconds_bucket{by="own",le="0.1"} 1.0',
        'mm_encoder_seconds_bucket{by="own",le="1.0"} 3.0',
        'mm_encoder_seconds_bucket{by="own",le="+Inf"} 7.0',
        'mm_encoder_seconds_count{by="own"} 7.0',
        'mm_encoder_seconds_sum{by="own"} 11.25',
        'mm_encoder_seconds_bucket{by="encoders",le="0.1"} 0.0',
        'mm_encoder_seconds_bucket{by="encoders",le="1.0"} 5.0',
        'mm_encoder_seconds_bucket{by="encoders",le="+Inf"} 5.0',
        'mm_encoder_seconds_count{by="encoders"} 5.0',
        'mm_encoder_seconds_sum{by="encoders"} 2.5',
        "# HELP mm_batch Together.",
        "# TYPE mm_batch histogram",
        'mm_batch_bucket{le="1.0"} 3.0',
        'mm_batch_bucket{le="2.0"} 3.0',
        'mm_batch_bucket{le="+Inf"} 4.0',
        "mm_batch_count 4.0",
        "mm_batch_sum 7.0",
    ]


def test_a_parser_reads_them() -> None:
    families = text_string_to_metric_families(with_histograms(TRITONS, (SECONDS, BATCH)))
    assert {family.name: family.type for family in families} == {
        "nv_inference_count": "counter",
        "mm_other_sum": "counter",
        "mm_encoder_seconds": "histogram",
        "mm_batch": "histogram",
    }


def test_what_is_not_there_stays_absent() -> None:
    """A server that died, or serves no images, shows no empty histogram."""
    assert with_histograms("", (SECONDS, BATCH)) == ""
