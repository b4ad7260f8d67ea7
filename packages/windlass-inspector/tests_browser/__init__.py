"""The inspector in a Chromium of the system, driven by what `make browser` installs."""
