"""gcloud's language for documents: keys, filters, formats, orders, and the printers of formats."""
