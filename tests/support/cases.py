from collections.abc import Mapping

import pytest


def cases(names: str, rows: Mapping[str, object]) -> pytest.MarkDecorator:
    """Return what runs a test once a row: id -> the value of the one name, or those of all.

    Rows are written out: of computed keys that are equal, all but the last would be lost.
    """
    named = names.split()
    params = [
        pytest.param(*(row if isinstance(row, tuple) and len(named) > 1 else (row,)), id=name)
        for name, row in rows.items()
    ]
    return pytest.mark.parametrize(named, params)
