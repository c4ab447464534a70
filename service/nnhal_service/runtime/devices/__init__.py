"""The devices that the framework knows: which there are, and how they come and go."""
