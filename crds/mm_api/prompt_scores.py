"""Which families can say how likely each token of a prompt was."""

from mm_api.families.family import Family, ImageLayout, Kind


def why_unscored(family: Family) -> str:
    """Return why a family's prompts have no scores, as the end of a sentence; empty: they have."""
    if family.kind is Kind.ENCODER_DECODER:
        return "an encoder reads the prompt"
    if family.image_layout is ImageLayout.OWN:
        return "the checkpoint's own processor makes the tokens of a prompt"
    return ""
