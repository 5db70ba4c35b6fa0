"""Droveway: the road that a herd of coding agents takes from a plan to merged code."""

__version__ = "0.1.0"
