"""What `mm-runtime compare` reports of a server."""

from pathlib import Path

from mm_api.contract import ExitCode
from mm_api.documents.evaluation import EvaluationReport
from mm_runtime.cli import main
from support.tiny_llava import BuiltEngine


def compared_report(engine: BuiltEngine, url: str, log: Path) -> EvaluationReport:
    documents = ["--manifest", str(engine.manifest), "--serving", str(engine.serving)]
    code = main(["compare", *documents, "--url", f"{url}/v1", "--termination-log", str(log)])
    assert code == ExitCode.OK, log.read_text()
    return EvaluationReport.from_json(log.read_bytes())
