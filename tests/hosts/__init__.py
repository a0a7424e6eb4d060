"""Hosts that run graphs: LangGraph's server, started as its documentation says."""
