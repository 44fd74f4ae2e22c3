"""A Job builds the plan that it was made for, whatever stands in the mounted file by then."""

from hashlib import sha256
from pathlib import Path

from mm_api.contract import ExitCode
from mm_runtime.cli import main
from support.build_plans import build_plan
from support.models import tiny_facts

PLAN = build_plan(tiny_facts())


def build(plan: Path, digest: str, message: Path) -> int:
    where = ["--source", "/mnt/source", "--store", str(plan.parent / "store"), "--dry-run"]
    reported = ["--plan-sha256", digest, "--termination-log", str(message)]
    return main(["build", "--plan", str(plan), *where, *reported])


def test_a_changed_plan_is_refused(tmp_path: Path) -> None:
    plan, message = tmp_path / "plan.json", tmp_path / "message"
    message.touch()
    plan.write_text(PLAN.to_json(indent=2))
    digest = sha256(plan.read_bytes()).hexdigest()
    assert build(plan, digest, message) == ExitCode.OK

    plan.write_text(PLAN.model_copy(update={"trust_remote_code": True}).to_json(indent=2))

    assert build(plan, digest, message) == ExitCode.RETRY
    found = sha256(plan.read_bytes()).hexdigest()
    assert all(text in message.read_text() for text in (str(plan), digest, found))
    assert not (tmp_path / "store").exists()
