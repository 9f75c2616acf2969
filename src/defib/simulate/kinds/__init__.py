"""What is served: built-in and custom kinds, and the rules, defaults and metadata of their objects."""
