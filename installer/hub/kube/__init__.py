"""The kit under the hub's controllers: API, caches kept by watches, keyed queues, the leader's lease, events."""
