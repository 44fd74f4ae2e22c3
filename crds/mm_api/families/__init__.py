"""Families: what is peculiar to each, as facts and formulas; everything else is generic.

Belongs here: one file per family with one `Family` record, and this registry, from which every
other list of families follows. Must not: read a spec, decide, or know Kubernetes or torch. May
import: `mm_api.documents`. `#name` is a section of docs/design/planning-sources.md.
"""

from mm_api.backends import DEFAULT
from mm_api.families.bart import BART
from mm_api.families.blip2_opt import BLIP2_OPT
from mm_api.families.byt5 import BYT5
from mm_api.families.family import Family
from mm_api.families.flan_t5 import FLAN_T5
from mm_api.families.gemma3 import GEMMA3
from mm_api.families.generic import GENERIC
from mm_api.families.idefics3 import IDEFICS3
from mm_api.families.internvl import INTERNVL
from mm_api.families.llava import LLAVA
from mm_api.families.llava_next import LLAVA_NEXT
from mm_api.families.llava_onevision import LLAVA_ONEVISION
from mm_api.families.mbart import MBART
from mm_api.families.mistral3 import MISTRAL3
from mm_api.families.mllama import MLLAMA
from mm_api.families.mt5 import MT5
from mm_api.families.nmt import NMT
from mm_api.families.pixtral import PIXTRAL
from mm_api.families.qwen2_5_omni import QWEN2_5_OMNI
from mm_api.families.qwen2_5_vl import QWEN2_5_VL
from mm_api.families.qwen2_audio import QWEN2_AUDIO
from mm_api.families.qwen2_vl import QWEN2_VL
from mm_api.families.qwen3_vl import QWEN3_VL
from mm_api.families.smolvlm import SMOLVLM
from mm_api.families.t5 import T5
from mm_api.families.vila import VILA
from mm_api.families.whisper import WHISPER

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        *(BLIP2_OPT, LLAVA, VILA, LLAVA_NEXT, LLAVA_ONEVISION, MLLAMA),
        *(QWEN2_VL, QWEN2_5_VL, INTERNVL, MISTRAL3, PIXTRAL, GEMMA3, IDEFICS3, SMOLVLM, QWEN3_VL),
        *(QWEN2_AUDIO, QWEN2_5_OMNI),
        *(T5, FLAN_T5, MT5, BYT5, BART, MBART, NMT, WHISPER),
        GENERIC,
    )
}
"""Every family that has a name in the API, in the order of the design."""

SERVED = frozenset(family.name for family in FAMILIES.values() if family.is_served(DEFAULT))
"""Families that this version builds and serves on the default backend."""
