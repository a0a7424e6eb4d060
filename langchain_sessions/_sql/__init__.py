"""The store over SQLAlchemy."""
