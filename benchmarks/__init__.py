"""One script a claim: what is compared runs side by side in one run and is printed as a ratio."""
