"""Programs in which a language model calls tools, and a person watches."""
