"""Rules of admission: pure functions of an object as it was and as it is to be, to what is wrong with it."""
