"""What Defib says when somebody asks about one node. The command line and the dashboard say the same words."""
