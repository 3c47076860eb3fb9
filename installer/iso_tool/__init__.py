"""`node0 iso`: looking into live ISOs, and changing what they carry."""
