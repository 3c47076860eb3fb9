"""`openshift-install` of the lab release."""
