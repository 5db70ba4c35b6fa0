"""The forge room."""
