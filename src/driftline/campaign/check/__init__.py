"""Checking with a store: run cases and keep the failures, with the experiments made on them."""
