"""Every option said once, and gcloud's value grammar."""
