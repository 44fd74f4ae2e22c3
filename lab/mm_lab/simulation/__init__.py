"""What a fleet of replicas would do under a trace of requests and an autoscaling policy.

Belongs here: requests, replicas, cold starts, what Prometheus would show, and the score. Must not:
do I/O, read a clock, or hold a policy; time is simulated and randomness comes from a seed. May
import: `mm_operator.autoscaling`.
"""

from mm_lab.simulation.fleet import Fleet
from mm_lab.simulation.profile import ServiceProfile
from mm_lab.simulation.request import Request
from mm_lab.simulation.run import Faults, Plan, simulate
from mm_lab.simulation.score import Score

__all__ = ["Faults", "Fleet", "Plan", "Request", "Score", "ServiceProfile", "simulate"]
