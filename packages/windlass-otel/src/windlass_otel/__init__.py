"""Sessions as OpenTelemetry's spans and metrics: while they run, and out of the record."""
