"""Running for one machine: ``herd up`` as a context, how a running one is found, and which repository a verb means."""

from droveway.service.found import UpInfo, read_up, save_secret, write_up
from droveway.service.prepare import Prepared, prepare
from droveway.service.target import Target, resolve_target
from droveway.service.up import Running, UpOptions, running

__all__ = [
    "Prepared",
    "Running",
    "Target",
    "UpInfo",
    "UpOptions",
    "prepare",
    "read_up",
    "resolve_target",
    "running",
    "save_secret",
    "write_up",
]
