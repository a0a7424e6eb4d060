"""The command `langchain-sessions`: look at a log, search it and look after it (extra `cli`)."""
