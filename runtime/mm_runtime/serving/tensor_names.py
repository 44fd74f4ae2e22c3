"""Names of tensors that both a configuration and a model know: read without numpy."""

MADE_ON_GPU, HANDED_OVER_ON_GPU = "FEATURES_ON_GPU", "features_on_gpu"
"""Output of the encoder and input of the language model, which upstream does not have: the features
beside it left the encoder as GPU tensors, and must arrive as such."""

BYTES_PREPARED, BYTES_TO_ENCODE = "PIXEL_BYTES", "pixel_bytes"
"""Output of `preprocessing` and input of the encoder, which upstream does not have: bytes of images
[images, side, side, 3] that are `PIXEL_VALUES` once they are normalised. Of the gateway's own
ensembles: clients' ensembles have upstream's."""

HOST_FEATURES = "host_features"
"""Input of the encoder, which upstream does not have either: features in host memory are wanted."""
