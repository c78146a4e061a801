"""Compilers' own rewrite rules, audited: every rule is a claim that two graphs mean the same."""
