"""What readers are shown: objects, their metadata, tables for people, and what the server says about itself."""
