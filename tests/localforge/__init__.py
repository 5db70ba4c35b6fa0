"""The embedded forge: REST, git, journal, webhooks."""
