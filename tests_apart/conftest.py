"""What holds for the tests of parts with environments of their own: the main tests' barriers."""

from tests.conftest import _own_environment

__all__ = ["_own_environment"]
