"""`promtool test rules`: every alert fires when it must, and stays silent when it must not."""

import re
import shutil
from pathlib import Path

import pytest
import yaml

from mm_observability.dashboards.dashboard import CHOSEN
from support.prometheus import promtool
from support.queries import RULES, every_alert, every_query
from support.scripts import ROOT

CASES = sorted((ROOT / "tests" / "mm_observability" / "rules").glob("*.yaml"))


def staged(folder: Path, case: Path, rules: str) -> Path:
    (folder / "rules.yaml").write_text(rules, encoding="utf-8")
    return Path(shutil.copy(case, folder))


def expectations(*, firing: bool) -> set[str]:
    return {
        expected["alertname"]
        for case in CASES
        for test in yaml.safe_load(case.read_text(encoding="utf-8"))["tests"]
        for expected in test.get("alert_rule_test", ())
        if bool(expected.get("exp_alerts")) is firing
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_cases_hold(case: Path, tmp_path: Path) -> None:
    done = promtool("test", "rules", str(staged(tmp_path, case, RULES.read_text(encoding="utf-8"))))

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_cases_can_fail(case: Path, tmp_path: Path) -> None:
    """With comparisons turned round, and sums for products, no case holds: they test something."""
    turned = re.sub(r"\s>\s", " < ", RULES.read_text(encoding="utf-8")).replace("== 0", "== 7")
    turned = turned.replace("* on", "+ on")
    done = promtool("test", "rules", str(staged(tmp_path, case, turned)))

    assert done.returncode == 1, done.stdout + done.stderr


@pytest.mark.parametrize("scrape", ["15s", "1m"])
def test_changes_of_replicas_are_marked(scrape: str, tmp_path: Path) -> None:
    """Also with the scrapes of Prometheus' own default, which leave one sample in a minute."""
    where = '{namespace="demo",model="tiny"}'
    changed = dict(every_query())["multimodal-model / annotation"].expr.replace(CHOSEN, "")
    test = {
        "interval": scrape,
        "input_series": [
            {"series": f"mm_autoscaling_applied_replicas{where}", "values": "2x39 3x40"}
        ],
        "promql_expr_test": [
            {"expr": changed, "eval_time": after, "exp_samples": marks}
            for after, marks in (
                (f"{40 * 15 if scrape == '15s' else 40 * 60}s", [{"labels": where, "value": 1}]),
                ("5m", []),
            )
        ],
    }
    file = tmp_path / "case.yaml"
    file.write_text(yaml.safe_dump({"evaluation_interval": scrape, "tests": [test]}))
    done = promtool("test", "rules", str(file))

    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_both_kinds_of_case() -> None:
    alerts = {alert["alert"] for alert in every_alert()}

    assert expectations(firing=True) == alerts
    assert expectations(firing=False) == alerts
