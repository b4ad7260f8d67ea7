"""Provider formats, pure: no clock, no disk, no network."""
