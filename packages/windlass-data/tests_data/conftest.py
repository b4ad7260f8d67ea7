"""What the core's tests of tools have: the folder with data, the context, the calls."""

from tests.tools.conftest import call, context, house, root

__all__ = ["call", "context", "house", "root"]
