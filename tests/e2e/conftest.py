"""The main job, once for all tests that need a served model."""

import pytest

from mm_devcluster.demo import questions
from mm_devcluster.demo.graph import Stage, State, Update, run_stages
from mm_devcluster.demo.stages import stages_of
from support.installed import Installed

STAGES_BEFORE = {"machine", "programs", "base", "operator-image", "runtime-image", "cluster"}


@pytest.fixture(name="answers", scope="session")
def demo_answers(installed: Installed) -> list[questions.Answer]:
    """Run every stage of the demo that comes after starting a cluster; return its answers.

    Its model is left to the tests behind it.
    """
    answers: list[questions.Answer] = []
    updates: list[Update] = []
    stages = stages_of(installed.session, answers)
    there = {stage.key for stage in stages if stage.key in STAGES_BEFORE}
    left = tuple(
        Stage(
            stage.key,
            stage.title,
            stage.work,
            tuple(need for need in stage.needs if need not in there),
        )
        for stage in stages
        if stage.key not in there
    )
    failures = run_stages(left, updates.append)
    reported = [f"{update.key}: {update.detail}" for update in updates if update.detail]
    assert [str(failure.error) for failure in failures] == [], "\n".join(reported)
    ended = {update.key for update in updates if update.state is State.DONE}
    assert ended == {stage.key for stage in left}
    return answers
