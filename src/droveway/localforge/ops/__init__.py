"""What can be done on the forge, for REST and GraphQL alike.

Each function takes the transaction, the actor and plain values; it checks that the actor may, validates, writes the
rows with their events, and queues webhooks. REST and GraphQL call these and nothing else (FRG-033). A refusal is
``access.Refused``.
"""
