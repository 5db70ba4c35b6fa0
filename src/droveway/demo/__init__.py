"""The main job on a small real project, with nothing set up (CLI-003)."""

from droveway.demo.run import DemoOptions, DemoResult, run_demo

__all__ = ["DemoOptions", "DemoResult", "run_demo"]
