"""Times at which something expires, as they are written."""

from __future__ import annotations

import pytest

from windlass.errors import UsageError
from windlass.memory.banks import expiry_of, time_text


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("30d", 1_000.0 + 30 * 86_400),
        (" 2 weeks ", 1_000.0 + 14 * 86_400),
        ("1.5H", 1_000.0 + 5_400),
        ("10 min", 1_600.0),
        ("2027-01-31", 1_801_353_600.0),
        ("2027-01-31T12:00", 1_801_396_800.0),
        ("2027-01-31T12:00+02:00", 1_801_389_600.0),
        ("", None),
        ("never", None),
    ],
)
def test_an_age_or_a_date(said: str, seconds: float | None) -> None:
    assert expiry_of(said, 1_000.0) == seconds


@pytest.mark.parametrize("said", ["soon", "2 months", "30", "d", "31.01.2027", "-3d"])
def test_anything_else_is_refused_with_examples(said: str) -> None:
    with pytest.raises(UsageError, match="must be an age such as '30d'"):
        expiry_of(said, 0.0)


def test_for_people_it_is_told_in_utc() -> None:
    assert time_text(1_801_396_800.0) == "2027-01-31 12:00 UTC"
