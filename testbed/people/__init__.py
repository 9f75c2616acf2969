"""A cluster for a person: what they start in one terminal, and the orders they give to it from another."""
