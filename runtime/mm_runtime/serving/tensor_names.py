"""Names of tensors that both a configuration and a model know: read without numpy."""

MADE_ON_GPU, HANDED_OVER_ON_GPU = "FEATURES_ON_GPU", "features_on_gpu"
"""Output of the encoder and input of the language model, which upstream does not have: the features
beside it left the encoder as GPU tensors, and must arrive as such."""

HOST_FEATURES = "host_features"
"""Input of the encoder, which upstream does not have either: features in host memory are wanted."""
