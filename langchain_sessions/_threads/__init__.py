"""LangGraph checkpoints in sessions."""
