"""The row of Model about its pods' servers: what was planned for them, what they keep and lose."""

from mm_observability.dashboards.dashboard import NONE_IS_GOOD, Panel, Query, Row
from mm_observability.dashboards.shared import WHO
from mm_observability.queries import server
from mm_observability.queries.select import CHOSEN

SERVERS = Row(
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
            "Known tokens of prompts",
            "Tokens per second of prompts whose keys and values were kept of earlier requests, "
            "and of those that were computed. Empty where spec.engine.kvCache.reuse is off, "
            "and on backends other than Reference.",
            (Query(server.reused_tokens(CHOSEN), f"{WHO} {{{{result}}}}"),),
            "ops",
            stacked=True,
        ),
        Panel(
            "Servers started again",
            "Servers that died and were started again in their pod, within one step of this "
            "panel; the third death in five minutes ends the pod.",
            (Query(server.restarts(CHOSEN), WHO),),
            steps=NONE_IS_GOOD,
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
