"""TorchInductor's rewrite rules: which there are, which fired, and how to forbid one. Imports torch: workers only."""
