"""An edited CRD, chart copy or page is named; `make generated` looks at the committed ones."""

from pathlib import Path

import pytest

from support.scripts import load_tool

GENERATORS = pytest.mark.parametrize(
    "name",
    [
        "generate_crds",
        "generate_api_reference",
        "generate_conditions_page",
        "generate_dockerfiles",
        "generate_document_schemas",
        pytest.param("generate_gpu_choices", marks=pytest.mark.slow),  # plans every example
        "generate_parameters_page",
        pytest.param("generate_planning_page", marks=pytest.mark.slow),  # plans every model
        "generate_templates",
    ],
)


@GENERATORS
def test_edited_file_is_reported(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tool = load_tool(name)
    assert tool.main([], tmp_path) == 0
    written = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    written[0].write_text("edited", encoding="utf-8")
    capsys.readouterr()

    assert tool.main(["--check"], tmp_path) == 1
    assert capsys.readouterr().out == (
        f"{written[0].relative_to(tmp_path)} is stale: run `make generate`\n"
    )
    assert written[0].read_text(encoding="utf-8") == "edited"
