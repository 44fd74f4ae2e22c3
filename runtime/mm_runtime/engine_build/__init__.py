"""From a plan and a checkpoint to an engine in the store: steps, journal, manifest.

Belongs here: which steps a build has (`steps`, pure), running them so that a killed build resumes
where it stopped, and the manifest that is written last. Must not: decide a limit (the plan does),
import torch outside of `commands`. May import: `mm_api` and the packages below; the `commands`
alone import `mm_runtime.serving`, `mm_runtime.reference_engine` and `mm_runtime.repository`.
"""
