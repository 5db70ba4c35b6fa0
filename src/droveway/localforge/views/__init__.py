"""Rows in REST's shape: webhooks use the same."""
