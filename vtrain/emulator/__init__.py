"""The services of Google Cloud that training needs, over what lies on this machine."""
