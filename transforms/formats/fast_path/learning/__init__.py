"""What limits and checks learning."""
