"""The git room."""
