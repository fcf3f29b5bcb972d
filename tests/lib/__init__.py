"""What tests share: services on loopback, jobs that are ready-made, and waiting."""
