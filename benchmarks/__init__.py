"""The numbers: `make bench`. Nothing here is part of the tests."""
