"""The store for those who outgrow one machine: ClickHouse, a server's or in process."""
