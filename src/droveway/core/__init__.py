"""What every room shares: pure data and functions, the clock, the ids, the runner of child processes."""
