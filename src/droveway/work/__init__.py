"""The work room."""
