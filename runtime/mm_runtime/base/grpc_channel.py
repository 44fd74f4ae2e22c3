"""PURE: how gRPC channels to tritonservers are set up, by whichever half of a pod opens them."""

CHANNEL = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # gRPC's own back-off grows to two minutes: a restarted server would look dead for as long.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)

ENCODER_KEY = "mm-encoder"
"""Name of what servers show encoders; Triton's, of `--grpc-restricted-protocol`."""

GRPC_KEY_PREFIX = "triton-grpc-protocol-"
"""What Triton puts before such a name to make the header."""
