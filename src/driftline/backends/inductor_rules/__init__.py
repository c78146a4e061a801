"""TorchInductor's rewrite rules: lists them, records which fired, forbids single ones. Imports torch: workers only."""
