"""How a patch of each kind changes an object, and who owns which field afterwards."""
