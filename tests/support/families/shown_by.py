"""Which tests show what every family does."""

PATHS: dict[str, tuple[str, ...]] = {
    "facts": (
        "tests/mm_api/checkpoint/test_configurations_are_read.py",
        "tests/mm_api/families",
        "tests/mm_runtime/inspect/test_every_family_is_inspected.py",
    ),
    "plan": (
        "tests/mm_operator/plan/engine/test_plans_are_documents.py",
        "tests/mm_operator/plan/engine/test_memory_follows_the_formulas.py",
        "tests/mm_operator/plan/engine/test_own_classes_are_planned.py",
        "tests/mm_operator/plan/test_families_are_served.py",
    ),
    "answers": (
        "tests/mm_runtime/reference_engine/test_families_equal_transformers.py",
        "tests/mm_runtime/reference_engine/test_encoder_decoders_equal_transformers.py",
        "tests/mm_runtime/reference_engine/test_any_class_equals_transformers.py",
    ),
    "commands": (
        "tests/mm_operator/plan/engine/test_commands_fit_their_version.py",
        "tests/mm_operator/plan/engine/test_checkpoints_are_served_on_pytorch.py",
    ),
}
"""What is shown -> files and folders; answers are compared with transformers token for token."""
