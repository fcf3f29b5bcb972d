"""What stands beside a replica: its shim, the modules of the shim, the preloader. Standard library only."""
