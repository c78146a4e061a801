"""TorchInductor's rewrite rules. Everything in here runs in a worker: it imports torch."""
