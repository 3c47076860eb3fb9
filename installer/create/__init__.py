"""`node0 agent create ...`: from validated inputs to files in the asset directory."""
