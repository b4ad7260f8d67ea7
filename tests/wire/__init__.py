"""Tests of the provider formats."""
