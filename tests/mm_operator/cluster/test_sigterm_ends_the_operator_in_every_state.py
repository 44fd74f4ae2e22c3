"""SIGTERM ends the operator whatever has become of the API server; a second one ends it at once."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from support.absent_kubelet import get
from support.eventually import eventually
from support.fickle_server import Behaviour, fickle_server
from support.model_documents import document
from support.model_namespace import Api
from support.operator_process import running_operator
from support.representatives import others_are_slow
from support.tied import tied

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("behaviour", others_are_slow(Behaviour, Behaviour.GONE))
def test_a_leader_ends(api: Api, tmp_path: Path, behaviour: Behaviour) -> None:
    """A leader with models in its cache ends in order, whatever becomes of its API server."""
    with fickle_server(api.cluster, tmp_path) as (server, kubeconfig):
        cluster = replace(api.cluster, kubeconfig=kubeconfig)
        with running_operator(cluster, tmp_path, api.namespace) as operator:
            api.apply(document(name="llava"))
            eventually(lambda: get(api, "mmm", "llava").get("status"))

            server.become(behaviour)
            if behaviour is not Behaviour.FORWARDS:
                eventually(lambda: "could not be read or renewed" in operator.log.read_text())

            assert operator.stop() == 0, operator.log.read_text()[-3000:]


@pytest.mark.slow
def test_a_start_that_hangs_is_ended(api: Api, tmp_path: Path) -> None:
    """An operator whose API server never answered it does not outlive SIGTERM."""
    with fickle_server(api.cluster, tmp_path) as (server, kubeconfig):
        server.become(Behaviour.HANGS)
        log = tmp_path / "hanging.log"
        command = [str(Path(sys.executable).parent / "mm-operator"), "run", "--port=0"]
        command += [f"--lease-namespace={api.namespace}", f"--kubeconfig={kubeconfig}"]
        command += ["--runtime-image=localhost/multimodal/runtime:test", "--log-level=debug"]
        # Ended at once, it leaves the files of its certificates.
        environment = {**os.environ, "TMPDIR": str(tmp_path)}
        with log.open("wb") as stream:
            process = subprocess.Popen(tied(command), stdout=stream, stderr=stream, env=environment)
        try:
            eventually(lambda: server.connections > 0)
            process.send_signal(signal.SIGTERM)

            process.wait(timeout=60)
            assert "Traceback" not in log.read_text()
        finally:
            process.kill()
            process.wait(timeout=60)
