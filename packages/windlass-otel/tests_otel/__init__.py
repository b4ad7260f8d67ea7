"""Spans and metrics of OpenTelemetry that sessions leave."""
