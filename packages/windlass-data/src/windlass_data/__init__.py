"""Tools for data files: SQL, charts and forecasts. They need the extra `tools`."""
