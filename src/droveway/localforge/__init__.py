"""The localforge room."""
