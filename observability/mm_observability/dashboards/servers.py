"""The row of Model about its pods' servers: what was planned for them, what they keep and lose."""

from mm_observability.dashboards.dashboard import NONE_IS_GOOD, QUARTER, THIRD, Panel, Query, Row
from mm_observability.dashboards.shared import WHO
from mm_observability.queries import server
from mm_observability.queries.select import CHOSEN


def servers() -> Row:
    """Return the row."""
    return Row(
        "Servers",
        (
            Panel(
                "Lookups in the feature cache",
                "Images, tiles or frames per second: hits cost no encoding, shared ones were "
                "being encoded already. Empty where spec.vision.featureCacheBytes is 0.",
                (Query(server.cache_lookups(CHOSEN), f"{WHO} {{{{result}}}}"),),
                "ops",
                stacked=True,
            ),
            Panel(
                "Size of the feature cache",
                "Bytes of the features that all pods keep.",
                (Query(server.cache_bytes(CHOSEN), WHO),),
                "bytes",
                width=QUARTER,
            ),
            Panel(
                "Evictions from the feature cache",
                "Features per second that made room for others: many beside many misses mean that "
                "the cache is too small.",
                (Query(server.cache_evictions(CHOSEN), WHO),),
                "ops",
                width=QUARTER,
            ),
            Panel(
                "Known tokens of prompts",
                "Tokens per second of prompts whose keys and values were kept of earlier requests, "
                "and of those that were computed. Empty where spec.engine.kvCache.reuse is off, "
                "and on backends other than Reference.",
                (Query(server.reused_tokens(CHOSEN), f"{WHO} {{{{result}}}}"),),
                "ops",
                stacked=True,
            ),
            Panel(
                "Keys and values kept",
                "Bytes of keys and values of earlier requests that all pods keep.",
                (Query(server.reuse_bytes(CHOSEN), WHO),),
                "bytes",
                width=QUARTER,
            ),
            Panel(
                "Evictions of keys and values",
                "Blocks of 16 tokens per second that made room for others: many beside few known "
                "tokens mean that the cache is too small.",
                (Query(server.reuse_evictions(CHOSEN), WHO),),
                "ops",
                width=QUARTER,
            ),
            Panel(
                "In hand before the language model",
                "Requests that preprocessing or an encoder has taken up and not answered.",
                (Query(server.executing(CHOSEN), f"{WHO} {{{{stage}}}}"),),
                width=THIRD,
            ),
            Panel(
                "Servers started again",
                "Servers that died and were started again in their pod, within one step of this "
                "panel; the third death in five minutes ends the pod.",
                (Query(server.restarts(CHOSEN), WHO),),
                width=THIRD,
                steps=NONE_IS_GOOD,
            ),
            Panel(
                "How the GPU is shared",
                "Pods by how encoder and language model share a GPU: time-slices where MPS was "
                "planned double the time of a token beside images.",
                (Query(server.gpu_sharing(CHOSEN), f"{WHO} {{{{mode}}}}"),),
                width=THIRD,
            ),
            Panel(
                "Planned pools",
                "Bytes that the plan gives to each pool of a pod; requests beyond the gateway's "
                "limit would need more.",
                (Query(server.planned_pools(CHOSEN), f"{WHO} {{{{pool}}}}"),),
                "bytes",
            ),
            Panel(
                "What pods do",
                "Pods that load their models, that answer the warm-up requests at the limits of "
                "their plan, and that are ready. One that stays in WarmingUp says at `/readyz` "
                "which request fails.",
                (Query(server.phases(CHOSEN), f"{WHO} {{{{phase}}}}"),),
                stacked=True,
            ),
        ),
    )
