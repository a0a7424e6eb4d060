"""A local HTTP server that speaks the OpenAI protocol as strictly as the strictest provider."""
