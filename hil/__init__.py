"""Hardware in the loop: boards under test, real and simulated, behind one way to use them."""
