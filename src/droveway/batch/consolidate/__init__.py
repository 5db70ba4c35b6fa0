"""Consolidation: workers' branches become one batch branch, conflicts become resolvers (batch.md §14, §15)."""
