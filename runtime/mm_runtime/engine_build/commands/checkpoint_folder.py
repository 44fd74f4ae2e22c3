"""The fetched checkpoint as a folder that the Reference engine could serve, by links."""

import shutil

from mm_runtime.engine_build.build_paths import BuildPaths


def link_checkpoint(paths: BuildPaths) -> None:
    """Make `paths.as_reference`: the parts of an engine, each a link to what the build has.

    A checkpoint's own files are all in one folder, which is both its weights and its processor.
    """
    folder = paths.as_reference
    shutil.rmtree(folder, ignore_errors=True)  # of a step that was killed
    folder.mkdir(parents=True)
    parts = {
        "llm": paths.weights,
        "processor": paths.weights,
        paths.tokenizer.name: paths.tokenizer,
        paths.adapters.name: paths.adapters,
    }
    for name, target in parts.items():
        if target.is_dir():
            (folder / name).symlink_to(target.resolve(), target_is_directory=True)
