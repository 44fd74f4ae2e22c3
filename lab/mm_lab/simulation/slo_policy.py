"""The operator's own policy as the simulator runs it: observation from meters, state kept."""

from collections.abc import Callable
from dataclasses import replace

from mm_lab.simulation.meters import Meters
from mm_lab.simulation.run import SCRAPE_AGE_SECONDS, View
from mm_operator.autoscaling import (
    Decision,
    LatencyObjective,
    Objectives,
    Observation,
    RequestRate,
    State,
    Traffic,
    decide,
    fresh,
)
from mm_operator.autoscaling.observation import (
    FAST_WINDOW_SECONDS,
    NEWEST_SECONDS,
    OUTPUT_WINDOW_SECONDS,
    STEADY_WINDOW_SECONDS,
)

ENOUGH_OBSERVATIONS = 20
"""With fewer in the fast window the steady one is read, as `scaling/traffic.py` does."""


class SloPolicy:
    """Calls `decide` with what the operator would see."""

    def __init__(
        self,
        objectives: Objectives,
        *,
        cold_start_seconds: float | None = None,
        tick_seconds: int = 15,
        age_seconds: int = SCRAPE_AGE_SECONDS,
        starved: Callable[[], bool] = lambda: False,
    ) -> None:
        self._starved = starved
        self.tick_seconds = tick_seconds
        self._age_seconds = age_seconds
        self._objectives = objectives
        self._cold_start_seconds = cold_start_seconds
        self._state: State | None = None
        self.decisions: list[Decision] = []
        self.last: Decision | None = None

    def replicas(self, view: View) -> int:
        """Return the decision's number."""
        fleet = view.fleet
        observation = Observation(
            at=float(view.at),
            replicas=fleet.wanted,
            ready=fleet.ready,
            unschedulable=fleet.unschedulable,
            unschedulable_seconds=fleet.unschedulable_seconds(view.at),
            cold_start_seconds=self._cold_start_seconds,
            traffic=None if view.silent else self._traffic(view),
            traffic_problem="Prometheus gives no answer." if view.silent else "",
            held=len(fleet.held),
            hold_problem="",
            starved=self._starved(),
        )
        state = self._state or fresh(observation.at, fleet.wanted)
        decision, self._state = decide(observation, state, self._objectives)
        self.last = decision
        if decision.replicas != decision.current or not self.decisions:
            self.decisions.append(decision)
        return decision.replicas

    def _traffic(self, view: View) -> Traffic:
        meters, shown = view.meters, view.at - self._age_seconds
        measured = {
            one.name: self._latency(meters, one, shown) for one in self._objectives.latencies
        }
        traffic = Traffic(
            fast=meters.arrivals(shown, int(FAST_WINDOW_SECONDS)),
            steady=meters.arrivals(shown, int(STEADY_WINDOW_SECONDS)),
            mean_output_tokens=meters.mean_output_tokens(shown, int(OUTPUT_WINDOW_SECONDS)),
            in_flight=meters.in_flight(shown, int(FAST_WINDOW_SECONDS)),
            running=meters.running(shown, int(FAST_WINDOW_SECONDS)),
            completed=meters.completed(shown, int(NEWEST_SECONDS)),
            newest=meters.arrivals(shown, int(NEWEST_SECONDS)),
            latencies={name: value for name, value in measured.items() if value is not None},
        )
        if view.nan:
            nothing = float("nan")
            return replace(traffic, fast=RequestRate(nothing, nothing, nothing))
        return traffic

    def _latency(self, meters: Meters, objective: LatencyObjective, shown: int) -> float | None:
        quantile, metric = objective.percentile / 100, objective.metric
        few = meters.observations(metric, shown, int(FAST_WINDOW_SECONDS)) < ENOUGH_OBSERVATIONS
        window = STEADY_WINDOW_SECONDS if few else FAST_WINDOW_SECONDS
        return meters.latency(metric, quantile, shown, int(window))
