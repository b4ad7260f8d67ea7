"""The store for those who outgrow one machine: ClickHouse, a server's or in process."""

from windlass_clickhouse.layout import TableOptions, script
from windlass_clickhouse.places import open_store

__all__ = ["TableOptions", "open_store", "script"]
