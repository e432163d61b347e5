"""The pages of single objects, each with an address of its own (lifecycle.page_paths): not in the navigation, linked from lists."""
