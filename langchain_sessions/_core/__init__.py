"""What things are inside: values, rows, the ledger, the one view. No I/O."""
