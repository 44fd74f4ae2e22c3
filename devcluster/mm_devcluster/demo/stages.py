"""The table of stages: what the demo does, in order, and what each needs."""

from collections.abc import Callable
from functools import partial

from mm_devcluster.demo import installation, preparation, questions, walk
from mm_devcluster.demo.graph import Report, Stage
from mm_devcluster.demo.session import Session
from mm_devcluster.demo.target import CURRENT
from mm_devcluster.images.catalogue import OPERATOR, RUNTIME, Stock

Work = Callable[[Session, Report], str]


def stages_of(session: Session, answers: list[questions.Answer]) -> tuple[Stage, ...]:
    """Return the stages of one run, each after those that it needs.

    Args:
        session: The run; its options decide whose cluster is used.
        answers: Receives the answers of the last stage.
    """
    current = session.options.cluster == CURRENT
    first = _current_cluster(session) if current else _own_cluster(session)
    # The chart names the runtime image, so it must be built by then, but not yet loaded.
    served = (RUNTIME, *session.options.family.images)
    images = tuple(f"{one.name}-image" for one in served)
    operator_there = ("namespaces",) if current else ("namespaces", "operator")
    chart_needs = operator_there if current else (*operator_there, *images)
    runtime_there = ("cluster",) if current else ("dns", *(one.name for one in served))

    def stage(key: str, title: str, work: Work, *needs: str) -> Stage:
        return Stage(key, title, partial(work, session), needs)

    return (
        *first,
        stage("namespaces", "Make the namespaces", installation.make_namespaces, "cluster"),
        stage("helm", "Install the chart", installation.install_chart, *chart_needs),
        stage("operator-pods", "Start the operator", installation.await_operator, "helm"),
        stage("upload", "Upload the checkpoint", installation.upload_checkpoint, *operator_there),
        stage("apply", "Apply the model", walk.apply_model, "helm", "upload", *runtime_there),
        stage("inspect", "  Inspect", walk.wait_inspected, "apply", "operator-pods"),
        # It takes a second, which the cores have while the model is inspected.
        stage("client", "Load OpenAI's client", questions.load_client, "apply"),
        stage("plan", "  Plan", walk.wait_planned, "inspect"),
        stage("build", "  Build", walk.wait_built, "plan"),
        stage("rollout", "  Roll out", walk.wait_rolled_out, "build"),
        stage("ready", "  Ready", walk.wait_ready, "rollout"),
        Stage(
            "answers",
            "Answers about images",
            partial(questions.send_questions, session, answers=answers),
            ("ready", "client"),
        ),
    )


def _own_cluster(session: Session) -> tuple[Stage, ...]:
    def stage(key: str, title: str, work: Work, *needs: str) -> Stage:
        return Stage(key, title, partial(work, session), needs)

    def image(recipe: Stock) -> Stage:
        work = partial(preparation.make_image, session, recipe)
        return Stage(f"{recipe.name}-image", f"Build the {recipe.name} image", work, ("base",))

    def load(recipe: Stock) -> Stage:
        work = partial(preparation.load_image, session, recipe)
        needs = ("cluster", f"{recipe.name}-image")
        return Stage(recipe.name, f"Load the {recipe.name} image", work, needs)

    more = session.options.family.images
    return (
        stage("machine", "Check the machine", preparation.check_machine),
        stage("programs", "Build Kubernetes", preparation.build_programs, "machine"),
        stage("base", "Build the base image", preparation.make_base, "machine"),
        image(OPERATOR),
        image(RUNTIME),
        *map(image, more),
        stage("cluster", "Start the cluster", preparation.start_cluster, "programs"),
        stage("dns", "Start its node and DNS", preparation.await_dns, "cluster"),
        load(OPERATOR),
        load(RUNTIME),
        *map(load, more),
    )


def _current_cluster(session: Session) -> tuple[Stage, ...]:
    work = partial(preparation.use_current_cluster, session)
    return (Stage("cluster", "Reach the current cluster", work),)
