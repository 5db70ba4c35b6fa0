"""The worker's run: one attempt at one issue."""

from droveway.work.worker.life import run_worker

__all__ = ["run_worker"]
