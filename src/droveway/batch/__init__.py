"""The batch room: plan → graph → tiers → consolidation → batch PR → landing. One loop, ``integrate``."""
