"""What holds for the tests of parts with environments of their own: the main tests' barriers."""

from tests.conftest import _own_environment, pytest_collection_finish

__all__ = ["_own_environment", "pytest_collection_finish"]
