"""Audit the rewrite rules of compilers: every rule claims that two graphs are equivalent."""
