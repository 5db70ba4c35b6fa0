"""The agents room."""
