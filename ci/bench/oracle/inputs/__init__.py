"""What both programs are asked about: valid inputs, and the same with changes."""
