"""The command line in a folder that nobody trusts, with a user's folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import strategies as st

from tests.cli.conftest import CommandLine, windlass

__all__ = ["odd_words", "own_marks", "windlass"]

odd_words = st.one_of(
    st.text(max_size=12),
    st.sampled_from([*"[]{}=,.#'\"\\\n<>&;:/@$%?*|-", '"""', "'''", "[[", "]]", "\\u0000", "\r"]),
    st.sampled_from(["<![CDATA[", "]]>", "<!--", "-->", "<?x", "&lt;", "&#0;", "\ufeff", "\u202e"]),
)
"""Pieces of text that mean something to some reader, and any others."""


@pytest.fixture(autouse=True)
def own_marks(
    windlass: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """The user's folder of settings, outside the current folder."""
    user = tmp_path_factory.mktemp("user")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(user))
    del windlass
    (user / "windlass").mkdir()
    return user / "windlass"
