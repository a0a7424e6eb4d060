"""Tests of langchain_sessions."""
