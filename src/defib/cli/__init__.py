"""The command line. Thin: arguments in, text out."""
