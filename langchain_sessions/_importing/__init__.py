"""What other libraries stored, read as it lies there, and written as sessions."""
