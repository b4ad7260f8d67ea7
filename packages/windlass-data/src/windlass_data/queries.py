"""What answers the queries of `sql:` phases: rows, and values that become literals."""

from windlass_data.query_values import QueryValues
from windlass_data.sql import query_rows

__all__ = ["QueryValues", "query_rows"]
