"""What a service does with logs."""
