"""Mutations (filled in below)."""
