"""The commands: their arguments and their help. What is heavy is imported by the command that needs it."""
