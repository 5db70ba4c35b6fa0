"""The command line: a thin file per verb group; no logic."""
