"""Trying again: how often, how long, and what is raised in the end."""

from __future__ import annotations

import pytest

from windlass.providers._pace import Patience


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("12", 12.0),
        ("1.5", 1.5),
        ("-3", 0.0),
        ("Wed, 21 Oct 2026 07:28:30 GMT", 30.0),
        ("Wed, 21 Oct 2026 07:28:30", 30.0),
        ("Wed, 21 Oct 2020 07:28:00 GMT", 0.0),
        ("soon", None),
        ("", None),
        ("nan", None),
        ("inf", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str | None, seconds: float | None) -> None:
    patience = Patience(now=lambda: 1_792_567_680.0)  # 21 October 2026, 07:28:00 UTC
    assert patience.seconds_after(header) == seconds
