"""The autoscaling policy: from what one tick sees of a model to how many replicas it should have.

Belongs here: the decision and every reason for it. Must not: do I/O, read a clock, know Kubernetes
objects or PromQL; time is `Observation.at`. The operator and the simulator call the same code. May
import: of the project `behavior` of the API alone.
"""

from mm_operator.autoscaling.decision import (
    Decision,
    ObjectiveOutcome,
    ScalingReason,
    Veto,
    Vetoed,
)
from mm_operator.autoscaling.objectives import (
    ENCODERS,
    SETTLE_SECONDS,
    LatencyMetric,
    LatencyObjective,
    Objectives,
    Tuning,
    WorkCost,
)
from mm_operator.autoscaling.observation import Observation, RequestRate, Traffic
from mm_operator.autoscaling.policy import decide
from mm_operator.autoscaling.slot import SlotMember, take_turns
from mm_operator.autoscaling.state import Sample, State, fresh
