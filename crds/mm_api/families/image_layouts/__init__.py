"""How images are cut up: one record for each way, with what they become of it.

Belongs here: the records, and formulas of rows, tiles and positions. Must not: know a family, torch
or Triton. May import: `mm_api.documents`. Code outside reads attributes of a record and compares no
record with another (`tests/architecture/test_layouts_are_compared_nowhere.py`).
"""

from mm_api.families.image_layouts.crops import CROPS
from mm_api.families.image_layouts.grid import GRID
from mm_api.families.image_layouts.layout import LINES, OWN, SQUARE, TILES
from mm_api.families.image_layouts.numbered import NUMBERED
from mm_api.families.image_layouts.views import VIEWS

LAYOUTS = (SQUARE, VIEWS, CROPS, NUMBERED, GRID, LINES, OWN, TILES)
