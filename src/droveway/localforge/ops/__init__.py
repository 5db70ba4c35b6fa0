"""What can be done on the forge. Each function takes the transaction, the actor and plain values; it checks that the actor

may, validates, writes the rows with their events, and queues webhooks. REST and GraphQL both call these and nothing
else (FRG-033). A refusal is ``access.Refused``.
"""
