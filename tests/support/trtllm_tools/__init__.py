"""Stand-ins for TensorRT-LLM's programs, one set a version.

They take exactly the options that a version takes (names from the planner's table, types and
choices from upstream's argparse definitions), end with argparse's code 2 on any other, check that
their inputs exist and agree, and write files with the real layout. The engines are noise: that a
command line builds a working engine is shown by NVIDIA's container on a GPU only.

Belongs here: `options` (types and choices), `install` (writes one version's root), `standin` (the
programs; standard library only, because they run under any python3). Must not: share code with the
planner or the builder beyond the table of names, or both would be wrong together.
"""
