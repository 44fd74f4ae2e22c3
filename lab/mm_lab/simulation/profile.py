"""How long things take on one replica of a model."""

from dataclasses import dataclass

from mm_operator.autoscaling import WorkCost


@dataclass(frozen=True, slots=True)
class ServiceProfile:
    """Service times of one replica with in-flight batching.

    A prompt takes the engine alone (vision encoder and context phase, no chunks); between prompts
    every running request gets one token per step, and a step takes
    `step_seconds + step_seconds_per_request * running`.
    """

    name: str
    prompt_seconds: float
    """Spent on each prompt, whatever its length."""
    image_token_seconds: float
    text_token_seconds: float
    step_seconds: float
    step_seconds_per_request: float
    slots: int
    """Requests that run at a time: the engine's batch size."""
    queue_size: int
    """Requests that wait at the gateway before the next one is refused."""
    cold_start_seconds: float
    """From scheduled to Ready."""
    beside_seconds: float = 0.0
    """Spent on each request in gateway and server, before the engine has it. Any number of requests
    spend it side by side, so it is waited for and fills no replica."""

    @property
    def cost(self) -> WorkCost:
        """Return what the warm-up benchmark would measure at full batch."""
        return WorkCost(
            request_seconds=self.prompt_seconds,
            image_token_seconds=self.image_token_seconds,
            text_token_seconds=self.text_token_seconds,
            output_token_seconds=self.step_seconds / self.slots + self.step_seconds_per_request,
        )


H100_CLASS = ServiceProfile(
    name="32B-class FP8 model on one H100 SXM",
    prompt_seconds=0.005,
    # Context phase: 2 * 32.5e9 FLOP a token at 40 % of 1,979 TFLOP/s FP8 dense; NVIDIA H100 data
    # sheet. The encoder of Qwen2-VL adds 675e6 parameters on four patches a token (arXiv
    # 2409.12191) in 16 bit at 40 % of 989 TFLOP/s.
    text_token_seconds=2 * 32.5e9 / (0.4 * 1979e12),
    image_token_seconds=2 * 32.5e9 / (0.4 * 1979e12) + 4 * 2 * 675e6 / (0.4 * 989e12),
    # A step reads the weights once: 32.5 GB at 65 % of 3.35 TB/s; each request its KV cache:
    # 64 layers, 8 KV heads of 128, FP8 keys and values, 1,500 tokens of context.
    step_seconds=32.5e9 / (0.65 * 3.35e12),
    step_seconds_per_request=2 * 64 * 8 * 128 * 1500 / (0.65 * 3.35e12),
    slots=32,
    queue_size=64,
    # Weights of 33 GB at 0.4 GB/s from a network disk, engine load and warm-up.
    cold_start_seconds=120.0,
)
"""Roofline, not a measurement: peak figures of data sheets and usual shares of them."""
