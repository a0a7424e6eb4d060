"""The contract of a store by themes; `langchain_sessions.testing.contract` puts them together."""
