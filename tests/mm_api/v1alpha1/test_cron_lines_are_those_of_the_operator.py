"""The API server takes the cron lines that the operator's parser reads, and refuses the others."""

import re
from datetime import UTC, datetime

import pytest
from cronsim import CronSim, CronSimError
from hypothesis import given
from hypothesis import strategies as st

from mm_api.v1alpha1.cron import DAYS, MONTHS
from mm_api.v1alpha1.validation import validate
from support.model_documents import at, document
from support.model_namespace import Api

GOOD = (
    *("* * * * *", "0 8 * * 1-5", "00 08 01 01 00", "59 23 31 12 7", "*/15 */2 */2 */2 */2"),
    *("0-59/90 0-23 1-31 1-12 0-7", "5/10 8/3 3/4 2/5 1/2", "1,2,3-4,*/5 1,2 1,2 1,2 1,2"),
    *("0 8 * * MON-FRI", "0 8 * jan-Mar,7 sun", "0 8 1 JAN-3 1-SAT", "0 0 L * *", "0 0 LW * *"),
    *("0 0 15,L/2 * *", "0 8 * * 5L", "0 8 * * 1,07L", "*,5 * * * *"),
)
BAD = (
    *("99 8 * * *", "60 8 * * *", "0 24 * * *", "0 8 0 * *", "0 8 32 * *", "0 8 * 0 *"),
    *("0 8 * 13 *", "0 8 * * 8", "0 8 * * FRI-SUN", "0 22-6 * * *", "0 8 * DEC-JAN *"),
    *("*/0 * * * *", "0 8 * * MONL", "0 8 * * L", "0 8 L-3 * *", "0 8 * MAY-* *", "0 JAN * * *"),
    *("0 8 * * 5L/2", "0 8 * * 00MON", "0 8 * *", "0 0 8 * * *", "daily", "@daily", "1- * * * *"),
    *(", * * * *", "-1 * * * *", "1-2-3 * * * *", "1/2/3 * * * *"),
)
KNOWN_TO_THE_PARSER_ALONE = ("0 8 30 2 *", "0 8 31 4,6 *")
"""Days that none of their months has."""

_ATOM = st.integers(0, 70).map(str) | st.sampled_from(("*", "L", "LW", "5L", "00", *DAYS, *MONTHS))
_RANGE = st.builds("{}-{}".format, _ATOM, _ATOM)
_TERM = _ATOM | _RANGE | st.builds("{}/{}".format, _ATOM | _RANGE, st.integers(0, 70))
_FIELD = st.lists(_TERM, min_size=1, max_size=3).map(",".join)


def _is_taken(line: str) -> bool:
    return validate(document(_specs((line,))[0])) == []


def _is_read(line: str) -> bool:
    try:
        CronSim(line, datetime(2026, 1, 1, tzinfo=UTC))
    except CronSimError:
        return False
    return len(line.split(" ")) == 5  # the parser also knows seconds


def _specs(lines: tuple[str, ...]) -> list[dict[str, object]]:
    """Return specs with these starts; a resource has at most sixteen schedules."""
    schedules = [
        {"name": f"n{number}", "start": line, "duration": "1h", "minReplicas": 1}
        for number, line in enumerate(lines)
    ]
    return [
        at("autoscaling.schedules", schedules[first : first + 16])
        for first in range(0, len(schedules), 16)
    ]


@pytest.mark.parametrize("line", GOOD)
def test_what_is_read_is_taken(line: str) -> None:
    assert (_is_read(line), _is_taken(line)) == (True, True)


@pytest.mark.parametrize("line", BAD)
def test_what_is_not_read_is_refused(line: str) -> None:
    assert (_is_read(line), _is_taken(line)) == (False, False)


@pytest.mark.parametrize("line", KNOWN_TO_THE_PARSER_ALONE)
def test_days_that_no_month_has_are_left_to_the_parser(line: str) -> None:
    """They are reported by `mmctl validate` and the condition ScalingActive."""
    assert (_is_read(line), _is_taken(line)) == (False, True)


@given(st.integers(0, 4), _FIELD)
def test_any_field_is_judged_alike(place: int, field: str) -> None:
    """Whatever stands in a field: schema and parser agree."""
    words = ["1"] * 5
    words[place] = field
    line = " ".join(words)

    assert _is_read(line) == _is_taken(line)


@pytest.mark.cluster
def test_the_api_server_takes_them(api: Api) -> None:
    """Go's regular expressions and the API server's own words read them as Python does."""
    assert {*api.refusals(map(document, _specs(GOOD)))} == {""}


@pytest.mark.cluster
def test_the_api_server_refuses_each(api: Api) -> None:
    """Every wrong line is reported at its own place, with an example."""
    specs = _specs(BAD)
    for spec, answer in zip(specs, api.refusals(map(document, specs)), strict=True):
        reported = {
            number
            for number in range(16)
            if re.search(rf"schedules\[{number}\]\.start: .*for example", answer)
        }
        assert set(range(len(spec["autoscaling"]["schedules"]))) == reported  # type: ignore[index]
