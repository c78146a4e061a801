"""TorchInductor's rewrite rules: listing them, recording which fired, and forbidding single ones. Imports torch:
workers only."""
