"""Tests of the batch room."""
