"""The walls around an agent: what its process can see and write, and that all of its tree ends with it (AGT-008)."""

from droveway.sandbox.sandbox import Level, Mounts, Network, Sandbox

__all__ = ["Level", "Mounts", "Network", "Sandbox"]
