"""Engines, connections and transactions."""
